"""The stock service: items in Redis, one hash an item. A script takes stock, so that two requests cannot mix."""

import os
import uuid

import redis
from flask import Flask, abort, jsonify

app = Flask(__name__)
db = redis.Redis(
    host=os.environ["REDIS_HOST"],
    port=int(os.environ["REDIS_PORT"]),
    password=os.environ["REDIS_PASSWORD"],
    decode_responses=True,
)
CHANGE = db.register_script("""
    local stock = redis.call('HGET', KEYS[1], 'stock')
    if not stock or tonumber(stock) + tonumber(ARGV[1]) < 0 then return -1 end
    return redis.call('HINCRBY', KEYS[1], 'stock', ARGV[1])
""")


@app.post("/item/create/<int:price>")
def create(price):
    item = str(uuid.uuid4())
    db.hset(item, mapping={"stock": 0, "price": price})
    return jsonify(item_id=item)


@app.post("/batch_init/<int:n>/<int:stock>/<int:price>")
def batch(n, stock, price):
    pipe = db.pipeline(transaction=False)
    for item in range(n):
        pipe.hset(str(item), mapping={"stock": stock, "price": price})
    pipe.execute()
    return jsonify(msg="Batch init for stock successful")


@app.get("/find/<item>")
def find(item):
    row = db.hgetall(item)
    return jsonify(stock=int(row["stock"]), price=int(row["price"])) if row else abort(400, "unknown item")


@app.post("/add/<item>/<int:amount>")
def add(item, amount):
    left = CHANGE([item], [amount])
    return jsonify(stock=left) if left >= 0 else abort(400, "unknown item")


@app.post("/subtract/<item>/<int:amount>")
def subtract(item, amount):
    left = CHANGE([item], [-amount])
    return jsonify(stock=left) if left >= 0 else abort(400, "unknown item or not enough stock")
