"""fork, vfork, exec, spawn, system, popen and fds that survive or do not."""
import os
import socket
import subprocess
import sys

sys.stdout.reconfigure(line_buffering=True)
left, right = socket.socketpair()
child = os.fork()
if child == 0:
    left.send(b"from the child")
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), right.recv(99))

print(subprocess.run(["echo", "vfork or spawn"], capture_output=True).stdout)
print(subprocess.run("echo shell; exit 4", shell=True, capture_output=True))
print(subprocess.run(["cat"], input=b"through pipes", capture_output=True).stdout)
print(subprocess.run(["echo", "group"], start_new_session=True, close_fds=True, pass_fds=[left.fileno()], capture_output=True).stdout)
try:
    subprocess.run(["/nonexistent/program"])
except FileNotFoundError as error:
    print(error.errno)
print(os.system("exit 5"), os.popen("echo popen").read())
print(os.waitpid(os.posix_spawn("/bin/echo", ["echo", "posix_spawn"], os.environ), 0)[1])
print(os.waitpid(os.posix_spawnp("echo", ["echo", "posix_spawnp"], os.environ), 0)[1])
for exec_ in (
    lambda: os.execv("/bin/echo", ["echo", "execv"]),
    lambda: os.execvp("echo", ["echo", "execvp"]),
    lambda: os.execve("/bin/echo", ["echo", "execve"], {}),
    lambda: os.execlp("echo", "echo", "execlp"),
    lambda: os.execve(os.open("/bin/echo", os.O_RDONLY), ["echo", "fexecve"], os.environ),
):
    child = os.fork()
    if child == 0:
        exec_()
    print(os.waitpid(child, 0)[1])

child, master = os.forkpty()
if child == 0:
    print(os.isatty(0))
    os._exit(0)
status = os.waitpid(child, 0)[1]  # First: a terminal hands out a line and its end in two pieces.
print(os.read(master, 99), status)
os.closerange(3, 100)
try:
    os.fstat(3)
except OSError as error:
    print(error.errno)
sys.exit(9)
