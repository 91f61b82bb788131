# Asks PostgreSQL for 5 ms of its time and `payments` for the money; answers 502 when the payment fails.
import os
import urllib.error
import urllib.request

import psycopg
from flask import Flask

app = Flask(__name__)
database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


@app.get("/orders/<int:number>")
def order(number):
    database.execute("SELECT pg_sleep(0.005)")
    try:
        urllib.request.urlopen(f"{os.environ['PAYMENTS_URL']}/payments/{number}").read()
    except urllib.error.HTTPError:
        print("failed", flush=True)
        return "payment failed", 502
    print("ok", flush=True)
    return "ordered"


app.run(port=int(os.environ["PORT"]), threaded=False)
