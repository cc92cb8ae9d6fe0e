-- SPDX-License-Identifier: Apache-2.0
-- A chat request of 2,048 bytes, as wrk sends it.
local head = '{"model":"bench-model","max_tokens":256,"messages":[{"role":"user","content":"'
local tail = '"}]}'
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json"
wrk.headers["User-Agent"] = "bench/1.0"
wrk.headers["Authorization"] = "Bearer " .. (os.getenv("BENCH_KEY") or "bench-key")
wrk.body = head .. string.rep("lorem ipsum ", 200):sub(1, 2048 - #head - #tail) .. tail
