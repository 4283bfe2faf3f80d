#!/bin/bash
# Runs inside a clean Debian that systemd has booted, as its only service: installs the packages that lie in /packages as a
# user would, puts redis on ulsock, starts nicd, and removes everything. What was seen goes to /results, a file each.
set -eu
mkdir /results
exec >/results/log 2>&1
set -x
trap 'systemctl poweroff --force' EXIT

# Everything that is on the system, but what changes by itself.
system() {
    {
        find / /dev/shm -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log \
            -o -path /var/lib/systemd -o -path /var/lib/redis -o -path /results -o -path /packages \) -prune \
            -o -printf '%y %m %u %p %l\n'
        find /etc -type f -exec sha256sum {} +
    } | sort >"/results/$1"
}

# A daemon of this host alone.
nicd() {
    local key
    key=$(ulsock nicd key)
    printf '127.0.0.1 keys=%s\n' "$key" >/etc/ulsock/peers
    : >/etc/ulsock.toml
    systemctl enable --now ulsock-nicd
    ulsock nicd status
    test -L /etc/systemd/system/multi-user.target.wants/ulsock-nicd.service
}

# Until all connections of redis are on rings, which takes long on a host with much else to do; then that is written down.
redis_on_rings() {
    ulsock run -- redis-benchmark -q -t get -n 100000000 -c 4 >/dev/null &
    local benchmark=$! end=$((SECONDS + 60))
    while ((SECONDS < end)); do
        ulsock top --once --json >/results/top
        ! grep -q '"program":"redis-server"' /results/top || grep -q '"kernel"' /results/top || break
        sleep 0.1
    done
    kill $benchmark
}

# A program on ulsock keeps the run directory; with its end everything goes.
in_use() {
    /usr/local/bin/ulsock run -- redis-server --port 7101 --save '' >/dev/null &
    local server=$! end=$((SECONDS + 60))
    until /usr/local/bin/ulsock run -- redis-cli -p 7101 ping && grep ' /dev/shm/ulsock/' "/proc/$server/maps"; do
        ((SECONDS < end))
        sleep 0.1
    done
    /usr/local/lib/ulsock/uninstall --purge
    test -d /dev/shm/ulsock
    kill $server
    wait $server || true
}

# Nothing changes what is on the system at an hour of its own.
systemctl mask --now apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    logrotate.timer man-db.timer motd-news.timer systemd-tmpfiles-clean.timer
ldconfig
touch /var/log/dpkg.log
# The caches and the states that systemd and ldconfig make at first use are there.
systemctl daemon-reload
system before

dpkg -i /packages/{ulsock,libulsock0,libulsock-dev}_*.deb
test "$(stat -c '%U %a' /dev/shm/ulsock)" = 'root 1777'
folder=/etc/systemd/system/redis-server.service.d
mkdir $folder
cp /usr/share/doc/ulsock/examples/redis-server.conf $folder/override.conf
systemctl daemon-reload
systemctl restart redis-server
redis_on_rings
nicd
ulsock doctor >/results/doctor
# As bash does at a tabulator key.
(
    . /usr/share/bash-completion/completions/ulsock
    COMP_WORDS=(ulsock nic) COMP_CWORD=1
    _ulsock ulsock nic ulsock
    printf '%s\n' "${COMPREPLY[@]}" >/results/completion
)
systemctl revert redis-server
systemctl restart redis-server
dpkg --purge ulsock libulsock-dev libulsock0
! systemctl is-active ulsock-nicd
system after-deb

hash -r
tar -x -f /packages/ulsock-*.tar.gz -C /var/tmp
/var/tmp/ulsock-*/install
nicd
/usr/local/bin/ulsock doctor >/results/doctor-of-tar
# Once more: the new one takes the place of the old one, of which some files are gone and one is no longer needed; the
# daemon runs anew, and at the next boot.
daemon=$(systemctl show -P MainPID ulsock-nicd)
touch /usr/local/lib/ulsock/no-longer
echo /usr/local/lib/ulsock/no-longer >>/usr/local/lib/ulsock/installed-files
rm /usr/local/bin/ulsock
/var/tmp/ulsock-*/install
systemctl is-active ulsock-nicd
systemctl is-enabled ulsock-nicd
test "$(systemctl show -P MainPID ulsock-nicd)" != "$daemon"
test ! -e /usr/local/lib/ulsock/no-longer
# A file of somebody else where one of ours has to be: what is installed stays as it is.
sed -i '\|/bin/ulsock$|d' /usr/local/lib/ulsock/installed-files
cp /usr/local/lib/ulsock/installed-files /var/tmp/listed
! /var/tmp/ulsock-*/install
cmp /var/tmp/listed /usr/local/lib/ulsock/installed-files
systemctl is-active ulsock-nicd
echo /usr/local/bin/ulsock >>/usr/local/lib/ulsock/installed-files
in_use
/var/tmp/ulsock-*/install
/usr/local/lib/ulsock/uninstall --purge
system after-tar
touch /results/done
