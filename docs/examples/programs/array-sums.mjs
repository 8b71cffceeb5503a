#!/usr/bin/env node
// A program that speaks lines of JSON with vkbench: sums of f32 arrays, and how fast it sorts.
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const floats = (array) => {
  const bytes = readFileSync(array.file);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

const now = () => Number(process.hrtime.bigint()) / 1e9;

// Seconds of a call, until all have lasted as long as was asked for: at most some 1,000 samples,
// each the mean of as many calls as last a thousandth of that.
function timeCalls(seconds, call) {
  const samples = [];
  call();
  for (let spent = 0; spent < seconds; ) {
    const began = now();
    let calls = 0;
    let took = 0;
    for (; calls === 0 || took < seconds / 1000; calls++, took = now() - began) call();
    samples.push(took / calls);
    spent += took;
  }
  return samples;
}

function add(request) {
  const [a, b] = request.inputs.map(floats);
  if (request.inputs.some((input) => input.format !== "f32") || a.length !== b.length)
    return { verdict: "skipped", reason: "it adds f32 arrays of one shape" };
  const y = new Float32Array(a.length);
  const samples = timeCalls(request.seconds, () => {
    for (let i = 0; i < y.length; i++) y[i] = a[i] + b[i];
  });
  writeFileSync(request.outputs[0].file, y);
  return { verdict: "passed", samples };
}

function sort(request) {
  const numbers = Float64Array.from({ length: 1e6 }, (_, i) => (i * 7919) % 1000003);
  let sorted;
  const samples = timeCalls(request.seconds, () => (sorted = Float64Array.from(numbers).sort()));
  const isRight = sorted.every((value, i) => i === 0 || sorted[i - 1] <= value);
  return { verdict: isRight ? "passed" : "wrong", reason: isRight ? "" : "not in order", samples };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer = { verdict: "skipped", reason: `it does not know ${request.case}` };
  if (request.kernel === "add") answer = add(request);
  if (request.case === "sort/1m") answer = sort(request);
  console.log(JSON.stringify({ clock: "host", includes: "one call of a function", ...answer }));
}
