//go:build interop

package kerberos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
)

// restartDaemon kills d, and starts it once more.
func (d *kerberosDaemon) restartDaemon(t *testing.T) {
	t.Helper()
	d.Kill()
	var err error
	d.Server, err = interop.StartServer(d.log, d.program, append(d.flags, "--listen", d.RDMA, "--tcp", d.TCP)...)
	require.NoError(t, err)
}

// countLocked returns how many byte ranges the client with a principal has locked, and its
// ID.
func (d *kerberosDaemon) countLocked(t *testing.T, principal string) (locks int, id string) {
	t.Helper()
	out, err := exec.Command(d.program, "clients", "--json", "--control", d.control).Output()
	require.NoError(t, err)
	var doc struct {
		Clients []struct {
			ID, Principal string
			Locks         int
		}
	}
	require.NoError(t, json.Unmarshal(out, &doc), "%s", out)
	require.Len(t, doc.Clients, 1, "%s", out)
	assert.Equal(t, "kerberos, "+principal, doc.Clients[0].Principal)
	return doc.Clients[0].Locks, doc.Clients[0].ID
}

// TestKerberosLinuxRecovers checks that Linux, whose machine credential protects its
// client ID and its sessions (SP4_MACH_CRED), joins a new connection to its session when
// the old one is cut, and reclaims a user's lock when the daemon is killed: the machine
// may do so, and no one else (R8881-2.4.3-3, R8881-2.10.8.3-1, R8881-18.46.3-3).
func TestKerberosLinuxRecovers(t *testing.T) {
	m, r := newMachine(t)
	d := newDaemon(t, r, "krb5i", "--tcp", gssAddr)
	line := interop.NewRelay(t, d.TCP, nil)
	m.Mount("server.test.example:/x", "/mnt", "vers=4.2,proto=tcp,sec=krb5i,port="+portOf(t, line.Addr))
	lock, end := m.startLocker("alice", "/mnt")
	require.Equal(t, "ok", lock("open 1"))
	require.Equal(t, "ok", lock("flock 1 write"))
	const machine = "host/guest@" + Realm
	locks, id := d.countLocked(t, machine)
	require.Equal(t, 1, locks)

	work := func(name string) {
		t.Helper()
		m.May("alice", "dd if=/dev/zero of=/mnt/%s bs=4096 count=3 conv=fsync 2>/dev/null", name)
		info, err := os.Stat(filepath.Join(d.dir, name))
		require.NoError(t, err)
		assert.EqualValues(t, 3*4096, info.Size())
	}
	called := func(op string) (times int) {
		t.Helper()
		out := m.Must("awk '$1 == \"%s:\" {n += $2} END {print n + 0}' /proc/self/mountstats", op)
		times, err := strconv.Atoi(strings.TrimSpace(out))
		require.NoError(t, err)
		return times
	}
	made, joined := called("CREATE_SESSION"), called("BIND_CONN_TO_SESSION")
	for i := range 3 {
		before := line.Cut()
		work(fmt.Sprint("cut", i))
		assert.Greater(t, line.Cut(), before, "connections")
		locks, now := d.countLocked(t, machine)
		assert.Equal(t, []any{1, id}, []any{locks, now}, "the client is the same")
	}
	assert.Equal(t, made, called("CREATE_SESSION"), "the session is the same")
	assert.Greater(t, called("BIND_CONN_TO_SESSION"), joined)
	for i := range 2 {
		d.restartDaemon(t)
		line.Cut()
		work(fmt.Sprint("killed", i))
		locks, _ = d.countLocked(t, machine)
		assert.Equal(t, 1, locks, "it is reclaimed before others open files")
		assert.Equal(t, "ok", lock("write 1"), "in the file that was locked before")
		m.MayNot("carol", "cat /mnt/locked")
	}
	end()
	m.Must("umount /mnt")
}
