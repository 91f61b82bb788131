#!/usr/bin/env node
// The host agent: telemetry of one Linux host.
import { main } from "../main.ts";

await main("host");
