package fusefs

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// sh runs a shell command in a mount as another user, and returns its output.
func (m *mounted) sh(uid, gid uint32, groups []uint32, command string) (string, error) {
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
	_, err := m.sh(1001, 2001, nil, "umask 077; echo secret > mine; mkdir dir; echo deep > dir/file; chmod 644 dir/file")
	require.NoError(t, err)
	st := lstat(t, s.file("mine"))
	assert.EqualValues(t, 1001, st.Uid)
	assert.EqualValues(t, 2001, st.Gid)
	out, err := m.sh(1001, 2001, nil, "cat mine dir/file")
	require.NoError(t, err, out)
	assert.Equal(t, "secret\ndeep", out)
	for _, command := range []string{"cat mine", "echo x >> mine", "cat dir/file", "ls dir", "cd dir", "rm -f dir/file", "chmod 777 mine", "touch dir/new", "test -r dir/file"} {
		out, err = m.sh(1002, 2001, nil, command)
		assert.Error(t, err, "%s: %s", command, out)
	}
	// The kernel caches the names in dir for long, from a user with the right
	// to them.
	out, err = m.sh(1001, 2001, nil, "cat dir/file; ls dir")
	require.NoError(t, err, out)
	out, err = m.sh(1002, 2001, nil, "cat dir/file")
	assert.Error(t, err)
	assert.Contains(t, out, "Permission denied")
	require.NoError(t, os.Chmod(m.file("dir"), 0o711))
	out, err = m.sh(1002, 2001, nil, "cat dir/file")
	assert.NoError(t, err, out)
	require.NoError(t, os.Chmod(m.file("dir"), 0o700))
	assert.Eventually(t, func() bool { // the kernel is told asynchronously
		_, err := m.sh(1002, 2001, nil, "cat dir/file")
		return err != nil
	}, 10*time.Second, time.Millisecond)
	out, err = m.sh(1001, 2001, nil, "cd dir; cat file")
	assert.NoError(t, err, out)
}

// TestGroups checks reading a file by the right of a supplementary group.
func TestGroups(t *testing.T) {
	s, m := newMount(t)
	put(t, s.file("a"), []byte("x"))
	require.NoError(t, os.Chown(s.file("a"), 0, 3003))
	require.NoError(t, os.Chmod(s.file("a"), 0o640))
	_, err := m.sh(1001, 2001, []uint32{3001, 3002}, "cat a")
	assert.Error(t, err)
	out, err := m.sh(1001, 2001, []uint32{3001, 3002, 3003}, "cat a")
	assert.NoError(t, err)
	assert.Equal(t, "x", out)
	out, err = m.sh(1001, 3003, nil, "cat a")
	assert.NoError(t, err, out)
}

// TestOpener checks that writes through an inherited descriptor count as the
// opener's.
func TestOpener(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Chmod(0o600))
	_, err := m.sh(1001, 2001, nil, "true")
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", "echo from another >&3; cat <&3")
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 2001}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, f.Sync())
	holds(t, s.file("a"), []byte("from another\n"))
}

// TestTwoWriters checks that writes of two users to one file, alternately, keep
// their order.
func TestTwoWriters(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Chmod(0o666))
	_, err := f.WriteString("aaaaaaaaaa")
	require.NoError(t, err)
	out, err := m.sh(1001, 2001, nil, "printf bbb | dd of=a bs=1 seek=2 conv=notrunc 2>&1")
	require.NoError(t, err, out)
	_, err = f.WriteAt([]byte("c"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	holds(t, s.file("a"), []byte("aabcbaaaaa"))
}

// TestExec checks that running a program of the mount requires the right to
// execute.
func TestExec(t *testing.T) {
	s, m := newMount(t)
	script, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file("run"), script, 0o755))
	_, err = m.sh(1001, 2001, nil, "./run")
	assert.NoError(t, err)
	require.NoError(t, os.Chmod(m.file("run"), 0o644))
	_, err = m.sh(0, 0, nil, "./run")
	assert.Error(t, err, "no user may, not even root")
	require.NoError(t, os.Chmod(m.file("run"), 0o711))
	_, err = m.sh(1001, 2001, nil, "./run")
	assert.NoError(t, err, "a user who may only execute")
	_, err = m.sh(1001, 2001, nil, "cat ./run")
	assert.Error(t, err)
}

// TestCallers checks that callers are cached for a moment, and not too many of
// them.
func TestCallers(t *testing.T) {
	s := callers{client: nfsclient.New(nil, nfsclient.Config{}), all: make(map[callerKey]*caller)}
	from := fuse.Caller{Owner: fuse.Owner{Uid: 5, Gid: 6}, Pid: uint32(os.Getpid())}
	one := s.of(&from)
	assert.Same(t, one, s.of(&from))
	one.until = time.Time{}
	two := s.of(&from)
	assert.NotSame(t, one, two)
	assert.True(t, one.same(two))
	from.Gid = 7
	assert.False(t, one.same(s.of(&from)))
	for pid := range uint32(3 * maxCallers) {
		from.Pid = 1<<30 + pid
		s.of(&from)
	}
	assert.LessOrEqual(t, len(s.all), maxCallers)
}

// TestFlavor checks that calls of programs have the flavour of the mount, and their
// locks AUTH_SYS.
func TestFlavor(t *testing.T) {
	s := callers{client: nfsclient.New(nil, nfsclient.Config{Cred: &rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p}}), all: make(map[callerKey]*caller)}
	who := s.of(&fuse.Caller{Owner: fuse.Owner{Uid: 5, Gid: 6}, Pid: uint32(os.Getpid())})
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.cred.Flavor)
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.client.Flavor())
	r := lockRequest(new(op), &file{n: new(node), who: who}, new(fuse.LkIn))
	assert.EqualValues(t, rpcmsg.AuthSys, r.Cred.Flavor)
	assert.EqualValues(t, 5, r.Cred.UID)
	assert.EqualValues(t, rpcmsg.AuthKrb5p, who.cred.Flavor)
}

// TestRecall checks that lookups in a directory that not everyone may search do
// not ask the server each time.
func TestRecall(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.file("d"), 0o700))
	put(t, s.file("d/a"), nil)
	before := m.calls(nfs3.ProcLookup)
	for range 10 {
		lstat(t, m.file("d/a"))
	}
	assert.Equal(t, before+2, m.calls(nfs3.ProcLookup))
	require.NoError(t, os.Remove(m.file("d/a")))
	assert.NoFileExists(t, m.file("d/a"))
}
