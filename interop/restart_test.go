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
	d := serve(t, "--no-root-squash")
	restart(t, d, d.site(), d.site(), true)
}

// restart checks open files by two sites of a daemon, over RDMA and over TCP: after a
// crash, and if twice is set first after SIGTERM.
func restart(t *testing.T, d *daemon, rdma, tcp site, twice bool) {
	rdma.mount(t, "/mnt", rdma.options("rdma"))
	tcp.mount(t, "/mnt2", tcp.options("tcp"))
	users := []*user{hold(t, "/mnt/held-rdma"), hold(t, "/mnt2/held-tcp")}

	if twice {
		timed(t, "SIGTERM", func() {
			d.stop()
			d.start()
			checkAll(users)
		})
	}
	timed(t, "SIGKILL, and a rename", func() {
		d.proc.Signal(syscall.SIGKILL)
		<-d.proc.Done()
		for _, dir := range []string{"held-rdma", "held-tcp"} {
			from := filepath.Join(d.dir, dir, workload.HoldMoved)
			require.NoError(t, unix.Rename(from, filepath.Join(d.dir, dir, workload.HoldMovedTo)))
		}
		d.start()
		checkAll(users)
	})
	timed(t, "the end", func() {
		for _, u := range users {
			u.end()
		}
	})
	umount(t, "/mnt2")
	umount(t, "/mnt")
	d.stop()
}

// A user is workload.Hold in the guest.
type user struct {
	t   *testing.T
	dir string
	s   *Session
	out *bufio.Reader
}

// hold starts to work on open files in a new directory.
func hold(t *testing.T, dir string) *user {
	s, err := guest(t).Open(t.Context(), "mkdir "+dir+" && exec guestwork hold "+dir)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	u := &user{t, dir, s, bufio.NewReader(s)}
	u.says("held")
	return u
}

// says requires a line with this prefix.
func (u *user) says(want string) {
	u.t.Helper()
	line, err := u.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		rest, _ := io.ReadAll(u.out)
		u.t.Fatalf("%s: %q is missing (%v): %s", u.dir, want, err, tail(line+string(rest)))
	}
	u.t.Logf("%s: %s", u.dir, strings.TrimSpace(line))
}

// checkAll requires all users to have worked on all their files since this
// call.
func checkAll(users []*user) {
	for _, u := range users {
		_, err := io.WriteString(u.s, "\n")
		require.NoError(u.t, err)
	}
	for _, u := range users {
		u.t.Helper()
		u.says("checked")
	}
}

// end closes the files and requires their content to be right.
func (u *user) end() {
	require.NoError(u.t, u.s.CloseWrite())
	rest, err := io.ReadAll(u.out)
	require.NoError(u.t, err)
	assert.Zero(u.t, u.s.Status(), "%s: %s", u.dir, tail(string(rest)))
}
