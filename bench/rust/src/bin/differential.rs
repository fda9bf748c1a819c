//! The shopping view on differential dataflow with one worker: `differential STREAM FOLDER hierarchy|reduce`.
//!
//! MAX is one reduce, or a hierarchy of reduces over 256, 16 and 1 parts of a category, as Materialize plans it: if a
//! value changes, only the values of its part are read again.
use differential_dataflow::{VecCollection, input::InputSession};
use shopping::{Record, Stream, tell, timed};
use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

fn part(length: &i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    length.hash(&mut hasher);
    hasher.finish() % 256
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    timely::execute_directly(move |worker| {
        let (stream, mut record) = (Stream::read(&arguments[1]).unwrap(), Record::default());
        let mut info = InputSession::<u64, (String, String), isize>::new();
        let mut visits = InputSession::<u64, (String, (String, i32)), isize>::new();
        let seen = Rc::new(RefCell::new(Vec::<(String, i32, isize)>::new()));
        let emitted = seen.clone();
        let probe = worker.dataflow::<u64, _, _>(|scope| {
            let info = info.to_collection(scope).arrange_by_key();
            let visits = visits.to_collection(scope).arrange_by_key();
            let joined = visits.join_core(info, |_, visit, category| Some((category.clone(), visit.1)));
            let longest: VecCollection<_, _, isize> = if arguments[3] == "hierarchy" {
                let mut parts = joined.map(|(category, length)| ((category, part(&length)), length));
                for next in [16, 1] {
                    let largest = parts.reduce(|_, lengths, out| out.push((*lengths[lengths.len() - 1].0, 1)));
                    parts = largest.map(move |((category, part), length)| ((category, part % next), length));
                }
                let largest = parts.reduce(|_, lengths, out| out.push((*lengths[lengths.len() - 1].0, 1)));
                largest.map(|((category, _), length)| (category, length))
            } else {
                joined.reduce(|_, lengths, out| out.push((*lengths[lengths.len() - 1].0, 1)))
            };
            let see = move |((category, length), _, diff): &((String, i32), u64, isize)| {
                emitted.borrow_mut().push((category.clone(), *length, *diff));
            };
            longest.consolidate().inspect(see).probe().0
        });
        for row in stream.info() {
            info.insert(row);
        }
        let mut time = 0;
        let mut advance = |info: &mut InputSession<_, (String, String), _>, visits: &mut InputSession<_, (String, (String, i32)), _>| {
            time += 1;
            info.advance_to(time);
            info.flush();
            visits.advance_to(time);
            visits.flush();
            while probe.less_than(&time) {
                worker.step();
            }
        };
        advance(&mut info, &mut visits);
        for (epoch, rows) in stream.visits().enumerate() {
            let ((), took) = timed(|| {
                for v in rows {
                    visits.update((v.product, (v.user, v.length)), v.diff as isize);
                }
                advance(&mut info, &mut visits);
            });
            record.epoch(took);
            for (category, length, diff) in seen.borrow_mut().drain(..) {
                record.change(epoch, &category, length, diff as i64);
            }
            tell(epoch, stream.epochs());
        }
        record.write(&arguments[2]).unwrap();
    });
}
