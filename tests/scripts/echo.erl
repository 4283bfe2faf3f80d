#!/usr/bin/env escript
%% Erlang: `serve PORT` answers each message of one connection, `call PORT` asks a thousand times.
-mode(compile).

options() -> [binary, {active, true}, {packet, 4}, {nodelay, true}].

main(["serve", Port]) ->
    Own = [{reuseaddr, true}, {ip, {127, 0, 0, 1}} | options()],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), Own),
    {ok, Socket} = gen_tcp:accept(Listener),
    answer(Socket);
main(["call", Port]) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, list_to_integer(Port), options()),
    call(Socket, 1000),
    ok = gen_tcp:close(Socket),
    io:format("ok~n").

answer(Socket) ->
    receive
        {tcp, Socket, Bytes} ->
            ok = gen_tcp:send(Socket, Bytes),
            answer(Socket);
        {tcp_closed, Socket} ->
            ok
    end.

call(_, 0) -> ok;
call(Socket, Left) ->
    Bytes = <<Left:32, 0:(Left * 8)>>,
    ok = gen_tcp:send(Socket, Bytes),
    receive {tcp, Socket, Bytes} -> ok end,
    call(Socket, Left - 1).
