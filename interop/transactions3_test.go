//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/transact"
)

// TestTransactions3 lets sqlite3 write to one database on a mount of the guest over NFSv3
// without nolock, on one over NFSv4.2, on one by mountrdma, and on the host. Each
// transaction must be there once.
func TestTransactions3(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	count := transactions
	if os.Getenv("INTEROP_SOAK") != "" {
		count = soakTransactions
	}
	s := newLocks3Server(t)
	require.NoError(t, os.Chmod(s.dir, 0o777))
	assert.Equal(t, "delete\n", onHost(t, s.dir, "sqlite3 db '"+transact.Schema+"'"))
	s.mountGuest(t, "/mnt", "vers=3,rdma")
	s.mountGuest(t, "/mnt2", "vers=4.2,proto=tcp")
	m := &fuseMount{t: t, point: reachableDir(t), said: new(sharedBuffer)}
	m.startProgram(exec.Command(shared.ethernet.inNamespace(t, programPath("mountrdma")), hostEthernet+":/x", m.point, "--foreground", "-o", "retry=0,port=20049"))
	sqlite := pushSqlite(t)
	began := time.Now()
	var all []*transactProcess
	for _, c := range []struct{ name, point string }{{"3", "/mnt"}, {"4.2", "/mnt2"}} {
		g, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("exec guestwork transact %s/db %s %d 0s %s", c.point, c.name, count, sqlite))
		require.NoError(t, err)
		t.Cleanup(g.Close)
		all = append(all, watchTransactor(t, c.name, g, g))
	}
	for _, c := range []struct{ name, point string }{{"mountrdma", m.point}, {"host", s.dir}} {
		in, out, _ := hostProgram(t, exec.Command(programPath("guestwork"), "transact", filepath.Join(c.point, "db"), c.name, fmt.Sprint(count), transactionPause.String(), "sqlite3"))
		all = append(all, watchTransactor(t, c.name, in, out))
	}
	for _, p := range all {
		assert.Equal(t, "failed 0 0", p.awaitLastLine(), p.name)
	}
	t.Logf("%d transactions in %.1f s", len(all)*count, time.Since(began).Seconds())
	each := fmt.Sprintf("%d|0|%d\n", count, count-1)
	want := fmt.Sprintf("ok\n%d\n%d\n3|%[3]s4.2|%[3]shost|%[3]smountrdma|%[3]s", len(all)*count, len(all)*count, each)
	assert.Equal(t, want, onHost(t, s.dir, "sqlite3 db '"+transact.Check+"'"))
	assert.Equal(t, want, onHost(t, m.point, "sqlite3 db '"+transact.Check+"'"))
	assert.Equal(t, want, mustInGuest(t, sqlite+" /mnt/db '"+transact.Check+"'"))
	m.unmountFUSE()
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
}
