//go:build interop

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

// TestLocks4 has processes of the guest lock bytes of one file through two mounts over
// NFSv4.2, which are two clients, and then through the mount over RDMA against a process
// of the server's host. The answers are those of a local file system. With INTEROP_SOAK
// they do so also by 4.0, and through the mount over TCP against the host.
func TestLocks4(t *testing.T) {
	sharedGuest(t)
	dir := mountTmpfs(t)
	reference, err := tryOnHost(dir, programPath("guestwork")+" locking "+dir+" "+dir)
	require.NoError(t, err, reference)
	d := startDaemon(t, "--no-root-squash")
	before := d.openFiles()
	versions := []string{"4.2"}
	if os.Getenv("INTEROP_SOAK") != "" {
		versions = append(versions, "4.0")
	}
	for _, vers := range versions {
		t.Run(vers, func(t *testing.T) { checkLocks4(t, d, d.guestSite().withVersion(vers), reference) })
	}
	d.checkDescriptors(before)
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}

// checkLocks4 checks the answers to the lock programs by one version.
func checkLocks4(t *testing.T, d *daemon, s guestSite, reference string) {
	mounts := map[string]string{"rdma": "/mnt", "tcp": "/mnt2"}
	for transport, point := range mounts {
		s.mountInGuest(t, point, s.mountOptions(transport))
	}
	logTime(t, "by RDMA and TCP", func() { sameLines(t, reference, mustInGuest(t, "guestwork locking /mnt /mnt2")) })
	for transport, point := range mounts {
		if transport == "rdma" || os.Getenv("INTEROP_SOAK") != "" {
			logTime(t, "with the host, by "+transport, func() { compareLocks(t, d.dir, point, "flock") })
		}
		checkFlocks(t, d.dir, point)
		mustInGuest(t, "rm "+point+"/locked")
	}
	for _, point := range mounts {
		unmountInGuest(t, point)
	}
}

// unionOf matches the answer to the process b's test for locks of the others. On a
// server's host, their locks are one range.
var unionOf = regexp.MustCompile(`(?m)^(\d+ b \S+-test .*: \w+ lock) of .*$`)

// compareLocks compares the answers to processes of the guest, in a mount, and to one
// of the host, in the directory that is mounted, with the answers to three
// processes in a local directory. It leaves out paragraphs with some commands.
func compareLocks(t *testing.T, dir, mount string, without ...string) {
	wanted := func(paragraph string) bool {
		return !slices.ContainsFunc(without, func(command string) bool { return strings.Contains(paragraph, command) })
	}
	var local, far strings.Builder
	at := mountTmpfs(t)
	require.NoError(t, locking.Contend(func(string) (locking.Child, error) { return hostLocker(at) }, wanted, &local))
	require.NoError(t, locking.Contend(func(who string) (locking.Child, error) {
		if who == "b" {
			return hostLocker(dir)
		}
		return newGuestLocker(t, mount)
	}, wanted, &far), "%s", &far)
	sameLines(t, unionOf.ReplaceAllString(local.String(), "$1"), unionOf.ReplaceAllString(far.String(), "$1"))
}

// checkFlocks checks that flock of a client is a lock of all bytes on the host, and
// that flock of a process of the host and locks of clients are apart.
func checkFlocks(t *testing.T, dir, mount string) {
	there, err := newGuestLocker(t, mount)
	require.NoError(t, err)
	here, err := hostLocker(dir)
	require.NoError(t, err)
	answers := lockAnswers{there: bufio.NewReader(there), here: bufio.NewReader(here)}
	answers.runSteps(t, []lockStep{
		{there, "open 1", "ok"},
		{here, "open 1", "ok"},
		{there, "flock 1 write", "ok"},
		{here, "posix-test 1 read 5 1", "write lock of 0 at 0"},
		{here, "ofd 1 read 5 1", "EAGAIN"},
		{here, "flock 1 write", "ok"},
		{there, "flock 1 none", "ok"},
		{there, "flock 1 write", "ok"},
		{there, "flock 1 none", "ok"},
		{here, "posix 1 read 5 1", "ok"},
		{there, "flock 1 write", "EAGAIN"},
		{there, "flock 1 read", "ok"},
		{there, "flock 1 none", "ok"},
		{here, "posix 1 none 0 0", "ok"},
	})
	assert.NoError(t, there.Wait())
	assert.NoError(t, here.Wait())
}

// A lockStep is a command for a process, and the answer that must come.
type lockStep struct {
	who           locking.Child
	command, want string
}

// lockAnswers are the outputs of processes.
type lockAnswers map[locking.Child]*bufio.Reader

func (a lockAnswers) runSteps(t *testing.T, steps []lockStep) {
	t.Helper()
	for _, step := range steps {
		fmt.Fprintln(step.who, step.command)
		answer, err := a[step.who].ReadString('\n')
		require.NoError(t, err, step.command)
		assert.Equal(t, step.want, strings.TrimSpace(answer), step.command)
	}
}

// TestLockWhileDown4 has a process of the host take a program's lock in the guest while
// nfsrdmad is down: the program's write fails, and it can lock the file again once the
// host's process has unlocked it. Another program keeps its lock.
func TestLockWhileDown4(t *testing.T) {
	sharedGuest(t)
	d := startDaemon(t, "--no-root-squash")
	s := d.guestSite().withVersion("4.2")
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s.mountInGuest(t, "/mnt", s.mountOptions(transport))
			there, err := newGuestLocker(t, "/mnt")
			require.NoError(t, err)
			keeps, err := newGuestLocker(t, "/mnt")
			require.NoError(t, err)
			here, err := hostLocker(d.dir)
			require.NoError(t, err)
			answers := lockAnswers{there: bufio.NewReader(there), keeps: bufio.NewReader(keeps), here: bufio.NewReader(here)}
			answers.runSteps(t, []lockStep{
				{there, "open 1", "ok"},
				{there, "posix 1 write 0 10", "ok"},
				{there, "write 1", "ok"},
				{keeps, "open 1", "ok"},
				{keeps, "posix 1 write 100 10", "ok"},
				{here, "open 1", "ok"},
				{here, "posix 1 write 9 1", "EAGAIN"},
			})
			d.proc.Kill()
			answers.runSteps(t, []lockStep{{here, "posix 1 write 9 1", "ok"}})
			d.startProcess()
			answers.runSteps(t, []lockStep{
				{there, "write 1", "EIO"},
				{here, "posix 1 write 100 1", "EAGAIN"},
				{keeps, "write 1", "EIO"},
				{keeps, "write 1", "ok"}, // Linux tells all that have the file open, once
				{there, "posix 1 none 0 0", "ok"},
				{there, "posix 1 write 0 10", "EAGAIN"},
				{here, "posix 1 none 0 0", "ok"},
				{there, "posix 1 write 0 10", "ok"},
				{there, "write 1", "ok"},
				{here, "posix 1 write 9 1", "EAGAIN"},
			})
			for _, p := range []locking.Child{there, keeps, here} {
				assert.NoError(t, p.Wait())
			}
			unmountInGuest(t, "/mnt")
		})
	}
	d.stopGracefully()
}

func hostLocker(dir string) (locking.Child, error) {
	return locking.Start(programPath("guestwork"), dir)
}

// A guestLocker is a process of a guest that locks bytes.
type guestLocker struct {
	*Session
	g   *Guest
	pid string
}

func newGuestLocker(t *testing.T, dir string) (locking.Child, error) {
	return newLockerIn(t, sharedGuest(t), dir)
}

func newLockerIn(t *testing.T, g *Guest, dir string) (locking.Child, error) {
	s, err := g.Open(context.Background(), "echo $$; exec guestwork locker "+dir)
	if err != nil {
		return nil, err
	}
	t.Cleanup(s.Close)
	var pid strings.Builder
	for b := make([]byte, 1); ; pid.Write(b) {
		if _, err := s.Read(b); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return &guestLocker{s, g, pid.String()}, nil
		}
	}
}

// Kill implements locking.Child.
func (g *guestLocker) Kill() error {
	if out, status, err := g.g.Exec(context.Background(), "kill -9 "+g.pid); err != nil || status != 0 {
		return fmt.Errorf("kill: %s, %w", out, err)
	}
	return g.awaitExit()
}

// Wait implements locking.Child.
func (g *guestLocker) Wait() error {
	if err := g.CloseWrite(); err != nil {
		return err
	}
	err := g.awaitExit()
	if err == nil && g.Status() != 0 {
		err = errors.New("a process of the guest has failed")
	}
	return err
}

// awaitExit waits for the end of the process.
func (g *guestLocker) awaitExit() error {
	for b := make([]byte, 100); ; {
		switch _, err := g.Read(b); {
		case err == nil:
		case g.Status() >= 0:
			return nil
		default:
			return err
		}
	}
}
