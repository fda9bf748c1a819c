//! The shopping view on DBSP with one worker: `dbsp STREAM FOLDER`.
use anyhow::Result;
use dbsp::{
    IndexedZSetHandle, OrdIndexedZSet, OutputHandle, RootCircuit, Runtime, operator::Max,
    typed_batch::IndexedZSetReader, utils::Tup2,
};
use shopping::{Record, Stream, tell, timed};

type Info = IndexedZSetHandle<String, String>;
type Visits = IndexedZSetHandle<String, Tup2<String, i32>>;
type View = OutputHandle<OrdIndexedZSet<String, i32>>;

fn main() -> Result<()> {
    let paths: Vec<String> = std::env::args().collect();
    let (stream, mut record) = (Stream::read(&paths[1])?, Record::default());
    let (mut circuit, (info, visits, view)) = Runtime::init_circuit(1, |circuit: &mut RootCircuit| {
        let (info, to_info): (_, Info) = circuit.add_input_indexed_zset::<String, String>();
        let (visit, to_visit): (_, Visits) = circuit.add_input_indexed_zset::<String, Tup2<String, i32>>();
        let joined = visit.join_index(&info, |_, Tup2(_, length), category| Some((category.clone(), *length)));
        let longest: View = joined.aggregate(Max).output();
        Ok((to_info, to_visit, longest))
    })?;
    info.append(&mut stream.info().map(|(product, category)| Tup2(product, Tup2(category, 1))).collect());
    circuit.transaction()?;
    view.consolidate();
    for (epoch, rows) in stream.visits().enumerate() {
        let mut rows = rows.into_iter().map(|v| Tup2(v.product, Tup2(Tup2(v.user, v.length), v.diff))).collect();
        let (out, took) = timed(|| -> Result<Vec<(String, i32, i64)>> {
            visits.append(&mut rows);
            circuit.transaction()?;
            Ok(view.consolidate().iter().collect())
        });
        record.epoch(took);
        for (category, length, diff) in out? {
            record.change(epoch, &category, length, diff);
        }
        tell(epoch, stream.epochs());
    }
    Ok(record.write(&paths[2])?)
}
