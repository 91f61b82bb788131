#!/usr/bin/env node
// Entry point of the host agent: it collects telemetry on a Linux host.
import { main } from "../main.ts";

await main("host");
