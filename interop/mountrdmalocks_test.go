//go:build interop

package interop

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMountrdmaLocks has processes lock bytes of a file of knfsd: one on a mount by mountrdma, the other in
// the guest. mountrdma finds the lock manager by the guest's rpcbind.
func TestMountrdmaLocks(t *testing.T) {
	guest(t)
	onEthernet(t)
	m := &fuseMount{t: t, point: reachable(t), said: new(buffer)}
	m.start(exec.Command(shared.ethernet.inside(t, program("mountrdma")), guestEthernet+":/export", m.point,
		"--foreground", "-o", "retry=0,mountport=20048"))
	assert.Empty(t, m.said.String())
	must(t, "rm -f /export/locked")
	here, err := hostLocker(m.point)
	require.NoError(t, err)
	there, err := newGuestLocker(t, "/export")
	require.NoError(t, err)
	answers := lockAnswers{here: bufio.NewReader(here), there: bufio.NewReader(there)}
	answers.steps(t, []lockStep{
		{here, "open 1", "ok"},
		{there, "open 1", "ok"},
		{here, "posix 1 write 0 10", "ok"},
		{there, "posix 1 read 9 1", "EAGAIN"},
		{there, "posix 1 write 10 10", "ok"},
		{here, "posix 1 read 15 1", "EAGAIN"},
		{here, "posix-test 1 read 0 0", "write lock of 10 at 10"},
		{here, "posix 1 none 0 5", "ok"},
		{there, "posix 1 write 0 5", "ok"},
	})
	require.NoError(t, here.Wait())
	m.umount()
}
