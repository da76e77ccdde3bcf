-- What a gateway does, in the usual Lua way: decode the body, look things up, count, write a line.
local json = require "cjson.safe"

local gateway = {}
local counts = ngx.shared.counts
-- By MD5, which OpenResty brings; the product hashes keys with SHA-256, which costs more.
local keys = { [ngx.md5("sk-test-0123456789abcdef0123456789abcdef")] = { name = "bench", requests_per_minute = 1e8 } }
local models = { ["bench-model"] = "bench" }
local lines

function gateway.open(path)
    lines = assert(io.open(path, "a"))
    lines:setvbuf("full", 65536)
end

local function refuse(status, message)
    ngx.status = status
    ngx.header["content-type"] = "application/json"
    ngx.say(json.encode({ error = { message = message, type = "invalid_request_error" } }))
    return ngx.exit(status)
end

function gateway.admit()
    local credential = ngx.var.http_authorization
    local key = credential and keys[ngx.md5(credential:sub(8))]
    if not key then return refuse(401, "the key is not known") end

    local minute = math.floor(ngx.now() / 60)
    local used = counts:incr(key.name .. minute, 1, 0, 120)
    if used and used > key.requests_per_minute then return refuse(429, "too many requests") end
    counts:incr("open", 1, 0)

    ngx.req.read_body()
    local text = ngx.req.get_body_data()
    local body = text and json.decode(text)
    if not body then return refuse(400, "the body is not JSON") end
    local pool = models[body.model]
    if not pool then return refuse(404, "the model is not known") end

    local context = ngx.ctx
    context.key, context.model, context.pool, context.bytes_in = key.name, body.model, pool, #text
    local first = body.messages and body.messages[1]
    context.session = first and ngx.crc32_long(tostring(first.content))
    if body.stream and not body.stream_options then
        body.stream_options = { include_usage = true }
        ngx.req.set_body_data(json.encode(body))
    end
    context.stream = body.stream
end

function gateway.observe()
    local piece, context = ngx.arg[1], ngx.ctx
    if not context.key or not piece or piece == "" then return end
    context.first = context.first or ngx.now()
    context.bytes_out = (context.bytes_out or 0) + #piece
    context.events = (context.events or 0) + 1
    if piece:find('"usage":{', 1, true) then
        context.prompt = piece:match('"prompt_tokens":(%d+)')
        context.completion = piece:match('"completion_tokens":(%d+)')
    end
end

function gateway.record()
    local context = ngx.ctx
    if not context.key then return end
    counts:incr("open", -1, 0)
    lines:write(json.encode({
        time = ngx.now(), key = context.key, model = context.model, pool = context.pool,
        replica = ngx.var.upstream_addr, status = ngx.status, stream = context.stream, session = context.session,
        bytes_in = context.bytes_in, bytes_out = context.bytes_out, events = context.events,
        prompt_tokens = tonumber(context.prompt or 0), completion_tokens = tonumber(context.completion or 0),
        ttft = (context.first or ngx.now()) - ngx.req.start_time(), seconds = ngx.now() - ngx.req.start_time(),
        client = ngx.var.remote_addr, attempts = 1, reason = "load",
    }), "\n")
end

return gateway
