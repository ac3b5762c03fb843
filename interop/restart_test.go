//go:build interop

package interop

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// TestRestart checks that open files in use survive a restart of the daemon,
// over both transports at once: first after SIGTERM, as an administrator stops
// the daemon, then after a crash.
func TestRestart(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	checkRestart(t, d, d.guestSite(), d.guestSite(), true)
}

// checkRestart checks open files by two sites of a daemon, over RDMA and over TCP: after a
// crash, and if twice is set first after SIGTERM.
func checkRestart(t *testing.T, d *daemon, rdma, tcp guestSite, twice bool) {
	rdma.mountInGuest(t, "/mnt", rdma.mountOptions("rdma"))
	tcp.mountInGuest(t, "/mnt2", tcp.mountOptions("tcp"))
	users := []*holdProcess{startHold(t, "/mnt/held-rdma"), startHold(t, "/mnt2/held-tcp")}

	if twice {
		logTime(t, "SIGTERM", func() {
			d.stopGracefully()
			d.startProcess()
			checkAll(users)
		})
	}
	logTime(t, "SIGKILL, and a rename", func() {
		d.proc.Signal(syscall.SIGKILL)
		<-d.proc.Done()
		for _, dir := range []string{"held-rdma", "held-tcp"} {
			from := filepath.Join(d.dir, dir, workload.HoldMoved)
			require.NoError(t, unix.Rename(from, filepath.Join(d.dir, dir, workload.HoldMovedTo)))
		}
		d.startProcess()
		checkAll(users)
	})
	logTime(t, "the end", func() {
		for _, u := range users {
			u.endHold()
		}
	})
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}

// A holdProcess is workload.Hold in the guest.
type holdProcess struct {
	t   *testing.T
	dir string
	s   *Session
	out *bufio.Reader
}

// startHold starts to work on open files in a new directory.
func startHold(t *testing.T, dir string) *holdProcess {
	s, err := sharedGuest(t).Open(t.Context(), "mkdir "+dir+" && exec guestwork hold "+dir)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	u := &holdProcess{t, dir, s, bufio.NewReader(s)}
	u.expectLine("held")
	return u
}

// expectLine requires a line with this prefix.
func (u *holdProcess) expectLine(want string) {
	u.t.Helper()
	line, err := u.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		rest, _ := io.ReadAll(u.out)
		u.t.Fatalf("%s: %q is missing (%v): %s", u.dir, want, err, outputTail(line+string(rest)))
	}
	u.t.Logf("%s: %s", u.dir, strings.TrimSpace(line))
}

// checkAll requires all users to have worked on all their files since this
// call.
func checkAll(users []*holdProcess) {
	for _, u := range users {
		_, err := io.WriteString(u.s, "\n")
		require.NoError(u.t, err)
	}
	for _, u := range users {
		u.t.Helper()
		u.expectLine("checked")
	}
}

// endHold closes the files and requires their content to be right.
func (u *holdProcess) endHold() {
	require.NoError(u.t, u.s.CloseWrite())
	rest, err := io.ReadAll(u.out)
	require.NoError(u.t, err)
	assert.Zero(u.t, u.s.Status(), "%s: %s", u.dir, outputTail(string(rest)))
}
