// The first service of the sample: asks `orders` for each visit, and answers 200 with an apology when that fails.
const http = require("node:http");
const { env } = require("node:process");

http
  .createServer((request, response) => {
    http.get(env.ORDERS_URL + request.url, (answer) => {
      answer.resume().on("end", () => {
        response.end(answer.statusCode === 200 ? "thank you" : "please try again");
        console.log("ok");
      });
    });
  })
  .listen(env.PORT, "127.0.0.1");
