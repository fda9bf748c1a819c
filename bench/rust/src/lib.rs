//! The stream of the bench, and what a side hands back.
//!
//! A stream is a file of u32: the number of products and of epochs, the category of each product, the rows of each
//! epoch, and the rows: product, user, length, and 1 or -1.
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

pub struct Stream {
    data: Vec<u32>,
}

pub struct Visit {
    pub product: String,
    pub user: String,
    pub length: i32,
    pub diff: i64,
}

impl Stream {
    pub fn read(path: &str) -> std::io::Result<Stream> {
        let bytes = fs::read(path)?;
        Ok(Stream { data: bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect() })
    }

    fn products(&self) -> usize {
        self.data[0] as usize
    }

    pub fn epochs(&self) -> usize {
        self.data[1] as usize
    }

    /// Every product with its category.
    pub fn info(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let categories = &self.data[2..2 + self.products()];
        categories.iter().enumerate().map(|(product, category)| (format!("product-{product}"), format!("category-{category}")))
    }

    /// The visits of each epoch, made when they are asked for, which is not timed.
    pub fn visits(&self) -> impl Iterator<Item = Vec<Visit>> + '_ {
        let first = 2 + self.products();
        let counts = &self.data[first..first + self.epochs()];
        let mut rows = self.data[first + self.epochs()..].chunks_exact(4);
        counts.iter().map(move |count| rows.by_ref().take(*count as usize).map(Visit::new).collect())
    }
}

impl Visit {
    fn new(row: &[u32]) -> Visit {
        Visit {
            product: format!("product-{}", row[0]),
            user: format!("user-{}", row[1]),
            length: row[2] as i32,
            diff: row[3] as i32 as i64,
        }
    }
}

/// For each epoch its seconds and the resident bytes after it, and every change: epoch, category, length, diff.
#[derive(Default)]
pub struct Record {
    epochs: Vec<f64>,
    changes: Vec<i32>,
}

impl Record {
    pub fn epoch(&mut self, took: Duration) {
        self.epochs.extend([took.as_secs_f64(), resident()]);
    }

    pub fn change(&mut self, epoch: usize, category: &str, length: i32, diff: i64) {
        let number = category.rsplit('-').next().unwrap().parse().unwrap();
        self.changes.extend([epoch as i32, number, length, diff as i32]);
    }

    pub fn write(&self, path: &str) -> std::io::Result<()> {
        let epochs: Vec<u8> = self.epochs.iter().flat_map(|x| x.to_le_bytes()).collect();
        let changes: Vec<u8> = self.changes.iter().flat_map(|x| x.to_le_bytes()).collect();
        fs::File::create(format!("{path}/epochs"))?.write_all(&epochs)?;
        fs::File::create(format!("{path}/changes"))?.write_all(&changes)
    }
}

/// The resident bytes of this process, or NaN where the system does not say.
pub fn resident() -> f64 {
    let pages = |text: String| text.split(' ').nth(1).and_then(|word| word.parse::<f64>().ok());
    fs::read_to_string("/proc/self/statm").ok().and_then(pages).map_or(f64::NAN, |count| count * 4096.0)
}

/// Tell the bench how far this side has come.
pub fn tell(epoch: usize, epochs: usize) {
    println!("{}", (epoch + 1) as f64 / epochs as f64);
}

pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let found = work();
    (found, start.elapsed())
}
