package fusefs

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// runShell runs a shell command in a mount as another user, and returns its output.
func (m *testMount) runShell(uid, gid uint32, groups []uint32, command string) (string, error) {
	m.t.Helper()
	// cmd.Dir must not be used: Go waits for the chdir with all of its threads
	// stopped, including those that serve the mount.
	cmd := exec.Command("sh", "-c", "cd "+m.dir+" && { "+command+"; }")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestUsers checks that the server decides the rights of each of several users.
func TestUsers(t *testing.T) {
	s, m := newMount(t)
	_, err := m.runShell(1001, 2001, nil, "umask 077; echo secret > mine; mkdir dir; echo deep > dir/file; chmod 644 dir/file")
	require.NoError(t, err)
	st := mustLstat(t, s.path("mine"))
	assert.EqualValues(t, 1001, st.Uid)
	assert.EqualValues(t, 2001, st.Gid)
	out, err := m.runShell(1001, 2001, nil, "cat mine dir/file")
	require.NoError(t, err, out)
	assert.Equal(t, "secret\ndeep", out)
	for _, command := range []string{"cat mine", "echo x >> mine", "cat dir/file", "ls dir", "cd dir", "rm -f dir/file", "chmod 777 mine", "touch dir/new", "test -r dir/file"} {
		out, err = m.runShell(1002, 2001, nil, command)
		assert.Error(t, err, "%s: %s", command, out)
	}
	// The kernel caches the names in dir for long, from a user with the right
	// to them.
	out, err = m.runShell(1001, 2001, nil, "cat dir/file; ls dir")
	require.NoError(t, err, out)
	out, err = m.runShell(1002, 2001, nil, "cat dir/file")
	assert.Error(t, err)
	assert.Contains(t, out, "Permission denied")
	require.NoError(t, os.Chmod(m.path("dir"), 0o711))
	out, err = m.runShell(1002, 2001, nil, "cat dir/file")
	assert.NoError(t, err, out)
	require.NoError(t, os.Chmod(m.path("dir"), 0o700))
	assert.Eventually(t, func() bool { // the kernel is told asynchronously
		_, err := m.runShell(1002, 2001, nil, "cat dir/file")
		return err != nil
	}, 10*time.Second, time.Millisecond)
	out, err = m.runShell(1001, 2001, nil, "cd dir; cat file")
	assert.NoError(t, err, out)
}

// TestGroups checks reading a file by the right of a supplementary group.
func TestGroups(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), []byte("x"))
	require.NoError(t, os.Chown(s.path("a"), 0, 3003))
	require.NoError(t, os.Chmod(s.path("a"), 0o640))
	_, err := m.runShell(1001, 2001, []uint32{3001, 3002}, "cat a")
	assert.Error(t, err)
	out, err := m.runShell(1001, 2001, []uint32{3001, 3002, 3003}, "cat a")
	assert.NoError(t, err)
	assert.Equal(t, "x", out)
	out, err = m.runShell(1001, 3003, nil, "cat a")
	assert.NoError(t, err, out)
}

// TestOpener checks that writes through an inherited descriptor count as the
// opener's.
func TestOpener(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Chmod(0o600))
	_, err := m.runShell(1001, 2001, nil, "true")
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", "echo from another >&3; cat <&3")
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 2001}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, f.Sync())
	assertContent(t, s.path("a"), []byte("from another\n"))
}

// TestTwoWriters checks that writes of two users to one file, alternately, keep
// their order.
func TestTwoWriters(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Chmod(0o666))
	_, err := f.WriteString("aaaaaaaaaa")
	require.NoError(t, err)
	out, err := m.runShell(1001, 2001, nil, "printf bbb | dd of=a bs=1 seek=2 conv=notrunc 2>&1")
	require.NoError(t, err, out)
	_, err = f.WriteAt([]byte("c"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assertContent(t, s.path("a"), []byte("aabcbaaaaa"))
}

// TestExec checks that running a program of the mount requires the right to
// execute.
func TestExec(t *testing.T) {
	s, m := newMount(t)
	script, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path("run"), script, 0o755))
	_, err = m.runShell(1001, 2001, nil, "./run")
	assert.NoError(t, err)
	require.NoError(t, os.Chmod(m.path("run"), 0o644))
	_, err = m.runShell(0, 0, nil, "./run")
	assert.Error(t, err, "no user may, not even root")
	require.NoError(t, os.Chmod(m.path("run"), 0o711))
	_, err = m.runShell(1001, 2001, nil, "./run")
	assert.NoError(t, err, "a user who may only execute")
	_, err = m.runShell(1001, 2001, nil, "cat ./run")
	assert.Error(t, err)
}

// TestCallers checks that callers are cached for a moment, and not too many of
// them.
func TestCallers(t *testing.T) {
	s := callers{log: discard, client: nfsclient.New(nil, nfsclient.Config{}), all: make(map[callerKey]*caller)}
	from := fuse.Caller{Owner: fuse.Owner{Uid: 5, Gid: 6}, Pid: uint32(os.Getpid())}
	one := s.findCaller(&from)
	assert.Same(t, one, s.findCaller(&from))
	one.expires = time.Time{}
	two := s.findCaller(&from)
	assert.NotSame(t, one, two)
	assert.True(t, one.isSame(two))
	from.Gid = 7
	assert.False(t, one.isSame(s.findCaller(&from)))
	for pid := range uint32(3 * maxCallers) {
		from.Pid = 1<<30 + pid
		s.findCaller(&from)
	}
	assert.LessOrEqual(t, len(s.all), maxCallers)
}

// TestFlavor checks that calls of programs have the mount's flavor, and their locks
// AUTH_SYS.
func TestFlavor(t *testing.T) {
	s := callers{log: discard, client: nfsclient.New(nil, nfsclient.Config{Cred: &rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p}}), all: make(map[callerKey]*caller)}
	who := s.findCaller(&fuse.Caller{Owner: fuse.Owner{Uid: 5, Gid: 6}, Pid: uint32(os.Getpid())})
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.cred.Flavor)
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.client.Flavor())
	r := lockRequest(new(op), &openFile{n: new(node), who: who}, new(fuse.LkIn))
	assert.EqualValues(t, rpcmsg.AuthSys, r.Cred.Flavor)
	assert.EqualValues(t, 5, r.Cred.UID)
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.cred.Flavor)
}

// TestRecall checks that lookups in a directory that not everyone may search do not
// send a LOOKUP each time.
func TestRecall(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.path("d"), 0o700))
	writeFile(t, s.path("d/a"), nil)
	before := m.callCount(nfs3.ProcLookup)
	for range 10 {
		mustLstat(t, m.path("d/a"))
	}
	assert.Equal(t, before+2, m.callCount(nfs3.ProcLookup))
	require.NoError(t, os.Remove(m.path("d/a")))
	assert.NoFileExists(t, m.path("d/a"))
}

// countCaller counts calls.
type countCaller map[string]int

func (c countCaller) Call(_ context.Context, x *oncrpc.Exchange) error {
	c[nfs3.ProcName(x.Proc)]++
	return &nfsclient.Error{Status: nfs3.ErrNoEnt}
}

// TestUnknownGroups checks that callers whose groups the mount cannot read get
// EACCES, and that the log says so once a minute; except for root, with Kerberos,
// and for a process that the kernel has act for another user. A thread that has
// exited is no reason.
func TestUnknownGroups(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	self := uint32(os.Getpid())
	other := fuse.Owner{Uid: 1001, Gid: 2001}
	for _, tt := range []struct {
		from   fuse.Caller
		flavor uint32
		denied bool
		want   string
	}{
		{fuse.Caller{Pid: 0, Owner: other}, rpcmsg.AuthSys, true, "PID namespace"},
		{fuse.Caller{Pid: self, Owner: other}, rpcmsg.AuthSys, false, "another user"},
		{fuse.Caller{Pid: 0, Owner: other}, rpcmsg.AuthKrb5p, false, ""},
		{fuse.Caller{Pid: 0}, rpcmsg.AuthSys, false, ""},
		{fuse.Caller{Pid: uint32(gone.Process.Pid), Owner: other}, rpcmsg.AuthSys, false, ""},
		{fuse.Caller{Pid: self, Owner: fuse.Owner{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}}, rpcmsg.AuthSys, false, ""},
	} {
		var log strings.Builder
		count := make(countCaller)
		s := callers{
			client: nfsclient.New(count, nfsclient.Config{Cred: &rpcmsg.Cred{Flavor: tt.flavor}}), all: make(map[callerKey]*caller),
			log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		for range 3 {
			who := s.findCaller(&tt.from)
			assert.Equal(t, tt.denied, who.denied)
			_, err := who.client.GetAttr(t.Context(), nil)
			assert.ErrorIs(t, err, nfs3.ErrNoEnt)
			_, err = who.client.Lookup(t.Context(), nil, "a")
			if tt.denied {
				assert.ErrorIs(t, err, unix.EACCES)
			} else {
				assert.ErrorIs(t, err, nfs3.ErrNoEnt)
			}
			clear(s.all)
		}
		assert.Equal(t, 3, count["GETATTR"], "which needs no rights")
		assert.Equal(t, tt.denied, count["LOOKUP"] == 0, "%v: %v", tt.from, count)
		lines := strings.Count(log.String(), "\n")
		if tt.want == "" {
			assert.Zero(t, lines, "%v: %s", tt.from, log.String())
		} else {
			assert.Equal(t, 1, lines, "%v", tt.from)
			assert.Contains(t, log.String(), tt.want)
		}
	}
}

// TestDeniedCaller checks that no answer for a user whose groups are known and empty
// serves the same user without known groups.
func TestDeniedCaller(t *testing.T) {
	one := &caller{cred: rpcmsg.Cred{UID: 5, GID: 6}}
	two := &caller{cred: rpcmsg.Cred{UID: 5, GID: 6}, denied: true}
	assert.False(t, one.isSame(two))
	assert.True(t, two.isSame(&caller{cred: rpcmsg.Cred{UID: 5, GID: 6}, denied: true}))
}
