//go:build interop

package kerberos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/interop"
)

const (
	bootLimit = 5 * time.Minute
	execLimit = 4 * time.Minute

	// gssAddr is where the rpc.gssd of a mount over RDMA makes contexts, whatever
	// the mount says.
	gssAddr = "127.0.0.1:2049"

	// payload is the rsize and wsize of the mounts, and count is how many of them a
	// test's file has.
	payload = 256 << 10
	count   = 4
)

// A machine is a guest of its own, because a rpc.gssd that runs changes all mounts
// of version 4: the client then identifies itself by Kerberos.
type machine struct {
	*testing.T
	*interop.Guest
}

func newMachine(t *testing.T, r *realm) machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test needs root: the daemon makes files of several owners")
	}
	build := exec.Command("../guest/build")
	build.Stderr = os.Stderr
	dir, err := build.Output()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	g, err := interop.Boot(ctx, interop.Options{Dir: strings.TrimSpace(string(dir))})
	require.NoError(t, err)
	m := machine{t, g}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("tail -n 60 /tmp/gssd.log; dmesg | tail -n 30")
			t.Logf("rpc.gssd and the kernel of the guest say:\n%s", out)
		}
		g.Close()
	})
	_, kdc, err := net.SplitHostPort(r.kdc.Addr)
	require.NoError(t, err)
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte(r.kdc.ClientConfig("10.0.2.2:"+kdc)), 0o600))
	require.NoError(t, r.kdc.AddService("machine", "host/guest"))
	require.NoError(t, g.Push(t.Context(), conf, "/etc/krb5.conf"))
	require.NoError(t, g.Push(t.Context(), r.kdc.Keytab("machine"), "/etc/krb5.keytab"))
	m.must("date -s @%d; chmod 644 /etc/krb5.conf; chmod 600 /etc/krb5.keytab; for m in rpcsec_gss_krb5 cts ecb; do modprobe $m || exit; done", time.Now().Unix())
	m.must(`rpc.gssd -f -vv -p /var/lib/nfs/rpc_pipefs >/tmp/gssd.log 2>&1 &
		for i in $(seq 100); do
			ls -l /proc/$!/fd | grep -q rpc_pipefs/gssd/ && exit
			usleep 100000
		done
		cat /tmp/gssd.log; exit 1`)
	return m
}

// try runs a script in the guest.
func (m machine) try(script string, args ...any) (out string, status int) {
	m.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), execLimit, fmt.Errorf("not done after %v", execLimit))
	defer cancel()
	out, status, err := m.Exec(ctx, fmt.Sprintf(script, args...))
	require.NoError(m, err, "%s\n%s", script, out)
	return out, status
}

// must runs a script in the guest that must succeed.
func (m machine) must(script string, args ...any) string {
	m.Helper()
	out, status := m.try(script, args...)
	require.Zero(m, status, "%s\n%s", fmt.Sprintf(script, args...), out)
	return out
}

// as runs a command as a user of the guest.
func (m machine) as(user, command string, args ...any) (out string, status int) {
	m.Helper()
	return m.try("su -s /bin/sh -c '%s' %s", fmt.Sprintf(command, args...), user)
}

// may runs a command as a user of the guest, which must succeed.
func (m machine) may(user, command string, args ...any) {
	m.Helper()
	out, status := m.as(user, command, args...)
	assert.Zero(m, status, "%s, as %s: %s", fmt.Sprintf(command, args...), user, out)
}

// mayNot runs a command as a user of the guest, which must be refused.
func (m machine) mayNot(user, command string, args ...any) {
	m.Helper()
	out, status := m.as(user, command, args...)
	assert.NotZero(m, status, "%s, as %s", fmt.Sprintf(command, args...), user)
	assert.Regexp(m, "Permission denied|Operation not permitted", out)
}

// login gets a ticket for a user of the guest, where rpc.gssd finds it.
func (m machine) login(user string) {
	m.Helper()
	m.may(user, "echo secret | kinit -c FILE:/tmp/krb5cc_$(id -u) %s", user)
}

// TestKerberosLinux mounts nfsrdmad by Linux's client with each flavour, over RDMA
// and TCP, by versions 3 and 4.2. Alice and bob have tickets, carol has none. The
// files are those of the users that their principals have on the server, whatever
// their numbers in the guest, and each may do what that user may. Contexts of RDMA
// mounts are made over TCP (R2203-RDMA-6).
func TestKerberosLinux(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	require.NoError(t, r.kdc.AddUser("bob"))
	m := newMachine(t, r)
	m.login("alice")
	m.login("bob")
	m.must("dd if=/dev/urandom of=/tmp/data bs=%d count=%d 2>/dev/null; chmod 644 /tmp/data", payload, count)
	records := t.TempDir()
	d := newDaemon(t, r, "krb5p:krb5i:krb5", "--tcp", gssAddr, "--record", records, "--record-size", "16MiB")
	_, port, err := net.SplitHostPort(d.RDMA)
	require.NoError(t, err)
	for _, vers := range []string{"3", "4.2"} {
		for _, transport := range []string{"rdma", "tcp"} {
			for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
				name := strings.Join([]string{vers, transport, sec}, "-")
				t.Run(name, func(t *testing.T) {
					m := machine{t, m.Guest}
					options := fmt.Sprintf("vers=%s,proto=%s,sec=%s,rsize=%d,wsize=%d,port=", vers, transport, sec, payload, payload)
					if transport == "rdma" {
						options += port
					} else {
						options += "2049"
					}
					if vers == "3" {
						options += ",nolock,mountproto=tcp,mountport=2049"
					}
					m.work(d, name, options)
					if transport == "rdma" && vers == "3" {
						checkForms(t, d.recorded(t, records), port, sec)
					}
					m.must("umount /mnt")
				})
			}
		}
	}
}

// work mounts the export, and works in a directory of it.
func (m machine) work(d *daemon, name, options string) {
	m.Helper()
	dir := filepath.Join(d.dir, name)
	require.NoError(m, os.Mkdir(dir, 0o777))
	require.NoError(m, os.Chmod(dir, 0o777))
	m.must("mount.nfs server.test.example:/x /mnt -o %s", options)
	m.Cleanup(func() {
		if m.Failed() {
			m.try("umount -f /mnt; umount -l /mnt; :")
		}
	})
	sec, _, _ := strings.Cut(options[strings.Index(options, "sec="):], ",")
	assert.Contains(m, m.must("grep ' /mnt ' /proc/mounts"), sec+",")

	if strings.HasPrefix(name, "4") { // the machine maintains its client ID, as no user may
		assert.Contains(m, d.shows(m.T, "clients"), "host/guest@"+Realm)
	}

	on := "/mnt/" + name + "/"
	m.may("alice", "umask 022; mkdir %sa; umask 077; echo of alice >%sa/alice", on, on)
	m.may("alice", "dd if=/tmp/data of=%sdata bs=%d conv=fsync 2>/dev/null", on, payload)
	m.may("bob", "umask 022; echo of bob >%sbob && mv %sbob %sbob2 && ln -s bob2 %slink && mkdir %sd", on, on, on, on, on)
	m.must("echo 3 >/proc/sys/vm/drop_caches")
	m.may("alice", "dd if=%sdata bs=%d 2>/dev/null | cmp - /tmp/data && cat %sa/alice %sbob2", on, payload, on, on)
	m.mayNot("bob", "cat %sa/alice", on)
	m.mayNot("bob", "rm -f %sa/alice", on)
	m.mayNot("bob", "echo more >>%sa/alice", on)
	m.mayNot("carol", "cat %sbob2", on)
	m.must("echo of root >%sroot", on) // by the key of the machine
	status := d.shows(m.T, "status")
	for _, who := range []string{"alice", "bob", "host/guest"} {
		assert.Contains(m, status, who+"@"+Realm)
	}

	for file, uid := range map[string]uint32{"a": 1, "a/alice": 1, "data": 1, "bob2": 2, "d": 2, "link": 2, "root": 65534} {
		info, err := os.Lstat(filepath.Join(dir, file))
		if assert.NoError(m, err) {
			assert.Equal(m, uid, info.Sys().(*syscall.Stat_t).Uid, file)
		}
	}
	assert.Equal(m, "1\n2\n", m.must("stat -c %%u %sa/alice %sbob2", on, on), "owners")
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	require.NoError(m, err)
	assert.Len(m, data, count*payload)
}

// recorded returns the daemon's record of its connection.
func (d *daemon) recorded(t *testing.T, dir string) string {
	t.Helper()
	list := func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*.pcap"))
		require.NoError(t, err)
		return files
	}
	before, said := list(), strings.Count(d.said(t), "connection recorded")
	d.Signal(syscall.SIGUSR1)
	require.Eventually(t, func() bool { return strings.Count(d.said(t), "connection recorded") > said }, time.Minute, 100*time.Millisecond)
	for _, file := range list() {
		if !slices.Contains(before, file) {
			return file
		}
	}
	t.Fatal("no new record")
	return ""
}

// checkForms checks in which forms of RPC-over-RDMA the data of READs and WRITEs
// have passed. With krb5 they are placed directly. With krb5i and krb5p no argument
// or result may be (RFC 8166, Section 8.2.2.3): long calls are read at position
// zero, and long replies written into Reply chunks.
func checkForms(t *testing.T, file, port, sec string) {
	t.Helper()
	frames := func(filter string) int { return len(strings.Fields(tshark(t, file, filter, "frame.number"))) }
	calls, replies := "tcp.dstport == "+port+" && ", "tcp.srcport == "+port+" && "
	placed := frames(calls + "rpcordma.writes_count > 0")
	pulled := frames(calls + "rpcordma.position > 0")
	long := frames(calls + "rpcordma.msg_type == 1 && rpcordma.position == 0")
	written := frames(replies + "rpcordma.msg_type == 1")
	if sec == "krb5" {
		assert.GreaterOrEqual(t, placed, 1, "READs with Write chunks")
		assert.GreaterOrEqual(t, pulled, 1, "WRITEs with Read chunks")
		assert.Zero(t, long, "long calls")
		assert.Zero(t, written, "long replies")
		return
	}
	assert.Zero(t, placed, "READs with Write chunks")
	assert.Zero(t, pulled, "WRITEs with Read chunks")
	assert.GreaterOrEqual(t, long, 1, "long calls")
	assert.GreaterOrEqual(t, written, 1, "long replies")

	// Linux's Reply chunk for the longest READ, as large as it takes the signed or
	// encrypted results to be.
	room := map[string]int{"krb5i": 164 + payload + 36, "krb5p": 196 + payload + 32}[sec]
	var rooms []int
	for line := range strings.Lines(tshark(t, file, calls+"rpcordma.reply_count == 1 && rpcordma.reads_count == 0", "rpcordma.rdma_length")) {
		sum := 0
		for word := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			n, err := strconv.ParseInt(word, 0, 32)
			require.NoError(t, err)
			sum += int(n)
		}
		rooms = append(rooms, sum)
	}
	assert.Contains(t, rooms, room, "lengths of Reply chunks")
}

// tshark prints a field of the frames that a filter selects.
func tshark(t *testing.T, file, filter, field string) string {
	t.Helper()
	cmd := exec.Command("tshark", "-n", "-o", "tcp.try_heuristic_first:TRUE", "-r", file, "-Y", filter, "-T", "fields", "-e", field)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", cmd)
	return string(out)
}
