import datetime

from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Query(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    Q1: _ClassVar[Query]
    Q2: _ClassVar[Query]

class SecurityType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    Equity: _ClassVar[SecurityType]
    Index: _ClassVar[SecurityType]
Q1: Query
Q2: Query
Equity: SecurityType
Index: SecurityType

class BenchmarkConfiguration(_message.Message):
    __slots__ = ("token", "benchmark_name", "benchmark_type", "queries")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    BENCHMARK_NAME_FIELD_NUMBER: _ClassVar[int]
    BENCHMARK_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    token: str
    benchmark_name: str
    benchmark_type: str
    queries: _containers.RepeatedScalarFieldContainer[Query]
    def __init__(self, token: _Optional[str] = ..., benchmark_name: _Optional[str] = ..., benchmark_type: _Optional[str] = ..., queries: _Optional[_Iterable[_Union[Query, str]]] = ...) -> None: ...

class Benchmark(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("symbol", "security_type", "last_trade_price", "last_trade")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    SECURITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    LAST_TRADE_PRICE_FIELD_NUMBER: _ClassVar[int]
    LAST_TRADE_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    security_type: SecurityType
    last_trade_price: float
    last_trade: _timestamp_pb2.Timestamp
    def __init__(self, symbol: _Optional[str] = ..., security_type: _Optional[_Union[SecurityType, str]] = ..., last_trade_price: _Optional[float] = ..., last_trade: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("seq_id", "last", "lookup_symbols", "events")
    SEQ_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    seq_id: int
    last: bool
    lookup_symbols: _containers.RepeatedScalarFieldContainer[str]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, seq_id: _Optional[int] = ..., last: _Optional[bool] = ..., lookup_symbols: _Optional[_Iterable[str]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Indicator(_message.Message):
    __slots__ = ("symbol", "ema_38", "ema_100")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    EMA_38_FIELD_NUMBER: _ClassVar[int]
    EMA_100_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    ema_38: float
    ema_100: float
    def __init__(self, symbol: _Optional[str] = ..., ema_38: _Optional[float] = ..., ema_100: _Optional[float] = ...) -> None: ...

class ResultQ1(_message.Message):
    __slots__ = ("benchmark_id", "batch_seq_id", "indicators")
    BENCHMARK_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_SEQ_ID_FIELD_NUMBER: _ClassVar[int]
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    benchmark_id: int
    batch_seq_id: int
    indicators: _containers.RepeatedCompositeFieldContainer[Indicator]
    def __init__(self, benchmark_id: _Optional[int] = ..., batch_seq_id: _Optional[int] = ..., indicators: _Optional[_Iterable[_Union[Indicator, _Mapping]]] = ...) -> None: ...

class CrossoverEvent(_message.Message):
    __slots__ = ("ts", "symbol", "security_type", "signal_type")
    class SignalType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        Buy: _ClassVar[CrossoverEvent.SignalType]
        Sell: _ClassVar[CrossoverEvent.SignalType]
    Buy: CrossoverEvent.SignalType
    Sell: CrossoverEvent.SignalType
    TS_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    SECURITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    ts: _timestamp_pb2.Timestamp
    symbol: str
    security_type: SecurityType
    signal_type: CrossoverEvent.SignalType
    def __init__(self, ts: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., symbol: _Optional[str] = ..., security_type: _Optional[_Union[SecurityType, str]] = ..., signal_type: _Optional[_Union[CrossoverEvent.SignalType, str]] = ...) -> None: ...

class ResultQ2(_message.Message):
    __slots__ = ("benchmark_id", "batch_seq_id", "crossover_events")
    BENCHMARK_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_SEQ_ID_FIELD_NUMBER: _ClassVar[int]
    CROSSOVER_EVENTS_FIELD_NUMBER: _ClassVar[int]
    benchmark_id: int
    batch_seq_id: int
    crossover_events: _containers.RepeatedCompositeFieldContainer[CrossoverEvent]
    def __init__(self, benchmark_id: _Optional[int] = ..., batch_seq_id: _Optional[int] = ..., crossover_events: _Optional[_Iterable[_Union[CrossoverEvent, _Mapping]]] = ...) -> None: ...
