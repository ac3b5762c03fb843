//go:build interop

package kerberos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// payload is the rsize and wsize of the mounts, and count is how many of them a
	// test's file has.
	payload = 256 << 10
	count   = 4
)

// TestKerberosLinux mounts nfsrdmad by Linux's client with each flavor, over RDMA and
// TCP, by versions 3 and 4.2. Alice and bob have tickets, carol has none. The files are
// those of the users that their principals have on the server, whatever their numbers in
// the guest, and each may do what that user may. Contexts of RDMA mounts are made over
// TCP (R2203-RDMA-6).
func TestKerberosLinux(t *testing.T) {
	m, r := newMachine(t)
	m.Must("dd if=/dev/urandom of=/tmp/data bs=%d count=%d 2>/dev/null; chmod 644 /tmp/data", payload, count)
	records := t.TempDir()
	d := newDaemon(t, r, "krb5p:krb5i:krb5", "--tcp", gssAddr, "--record", records, "--record-size", "16MiB")
	port := portOf(t, d.RDMA)
	for _, vers := range []string{"3", "4.2"} {
		for _, transport := range []string{"rdma", "tcp"} {
			for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
				name := strings.Join([]string{vers, transport, sec}, "-")
				t.Run(name, func(t *testing.T) {
					m := m.withTest(t)
					options := fmt.Sprintf("vers=%s,proto=%s,sec=%s,rsize=%d,wsize=%d,port=", vers, transport, sec, payload, payload)
					if transport == "rdma" {
						options += port
					} else {
						options += "2049"
					}
					if vers == "3" {
						options += ",nolock,mountproto=tcp,mountport=2049"
					}
					m.runWorkload(d, name, options)
					if transport == "rdma" && vers == "3" {
						checkForms(t, d.connRecord(t, records), port, sec)
					}
					m.Must("umount /mnt")
				})
			}
		}
	}
}

// runWorkload mounts the export, and works in a directory of it.
func (m kerberosGuest) runWorkload(d *kerberosDaemon, name, options string) {
	m.Helper()
	dir := filepath.Join(d.dir, name)
	require.NoError(m, os.Mkdir(dir, 0o777))
	require.NoError(m, os.Chmod(dir, 0o777))
	m.Mount("server.test.example:/x", "/mnt", options)
	sec, _, _ := strings.Cut(options[strings.Index(options, "sec="):], ",")
	assert.Contains(m, m.Must("grep ' /mnt ' /proc/mounts"), sec+",")

	if strings.HasPrefix(name, "4") { // the machine maintains its client ID, as no user may
		assert.Contains(m, d.runCommand(m.T, "clients"), "host/guest@"+Realm)
	}

	on := "/mnt/" + name + "/"
	m.May("alice", "umask 022; mkdir %sa; umask 077; echo of alice >%sa/alice", on, on)
	m.May("alice", "dd if=/tmp/data of=%sdata bs=%d conv=fsync 2>/dev/null", on, payload)
	m.May("bob", "umask 022; echo of bob >%sbob && mv %sbob %sbob2 && ln -s bob2 %slink && mkdir %sd", on, on, on, on, on)
	m.Must("echo 3 >/proc/sys/vm/drop_caches")
	m.May("alice", "dd if=%sdata bs=%d 2>/dev/null | cmp - /tmp/data && cat %sa/alice %sbob2", on, payload, on, on)
	m.MayNot("bob", "cat %sa/alice", on)
	m.MayNot("bob", "rm -f %sa/alice", on)
	m.MayNot("bob", "echo more >>%sa/alice", on)
	m.MayNot("carol", "cat %sbob2", on)
	m.Must("echo of root >%sroot", on) // by the machine's key
	status := d.runCommand(m.T, "status")
	for _, who := range []string{"alice", "bob", "host/guest"} {
		assert.Contains(m, status, who+"@"+Realm)
	}

	for file, uid := range map[string]uint32{"a": 1, "a/alice": 1, "data": 1, "bob2": 2, "d": 2, "link": 2, "root": 65534} {
		assert.Equal(m, uid, ownerOf(m.T, filepath.Join(dir, file)), file)
	}
	assert.Equal(m, "1\n2\n", m.Must("stat -c %%u %sa/alice %sbob2", on, on), "owners")
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	require.NoError(m, err)
	assert.Len(m, data, count*payload)
}

// connRecord returns the daemon's record of its connection.
func (d *kerberosDaemon) connRecord(t *testing.T, dir string) string {
	t.Helper()
	list := func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*.pcap"))
		require.NoError(t, err)
		return files
	}
	before, said := list(), strings.Count(d.daemonLog(t), "connection recorded")
	d.Signal(syscall.SIGUSR1)
	require.Eventually(t, func() bool { return strings.Count(d.daemonLog(t), "connection recorded") > said }, time.Minute, 100*time.Millisecond)
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
	values := func(filter, field string) string {
		return interop.Tshark(t, file, "-Y", filter, "-T", "fields", "-e", field)
	}
	frames := func(filter string) int { return strings.Count(values(filter, "frame.number"), "\n") }
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
	expected := map[string]int{"krb5i": 164 + payload + 36, "krb5p": 196 + payload + 32}[sec]
	var lengths []int
	for line := range strings.Lines(values(calls+"rpcordma.reply_count == 1 && rpcordma.reads_count == 0", "rpcordma.rdma_length")) {
		sum := 0
		for word := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			n, err := strconv.ParseInt(word, 0, 32)
			require.NoError(t, err)
			sum += int(n)
		}
		lengths = append(lengths, sum)
	}
	assert.Contains(t, lengths, expected, "lengths of Reply chunks")
}
