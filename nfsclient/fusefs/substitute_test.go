package fusefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

func tryType(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return errnoName(err)
	}
	return map[uint32]string{
		unix.S_IFREG: "-", unix.S_IFIFO: "p", unix.S_IFSOCK: "s", unix.S_IFCHR: "c", unix.S_IFBLK: "b",
	}[st.Mode&unix.S_IFMT] + fmt.Sprintf(" %#o %d", st.Mode&0o7777, st.Nlink)
}

func tryConnect(path string) string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return errnoName(err)
	}
	defer unix.Close(fd)
	return errnoName(unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
}

// tryListen listens on a socket until the standard input ends. Then the file
// path.ready exists.
func tryListen(path string) string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return errnoName(err)
	}
	defer unix.Close(fd)
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, 100)
	}
	if err == nil {
		err = os.WriteFile(path+".ready", nil, 0o644)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errnoName(err)
}

// tryOften opens a file many times, and returns each distinct outcome.
func tryOften(path string) string {
	seen := make(map[string]bool)
	var words []string
	for range 300 {
		if w := tryOpen(path, unix.O_RDWR); !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

const (
	oneUser  = 1001
	nextUser = 1002
)

// createSpecialFiles creates special files at the server.
func createSpecialFiles(t *testing.T, s *testServer) {
	t.Helper()
	for name, f := range map[string]struct {
		mode uint32
		dev  uint64
	}{
		"closed": {unix.S_IFIFO | 0o600, 0},
		"open":   {unix.S_IFIFO | 0o666, 0},
		"log":    {unix.S_IFIFO | 0o622, 0},
		"tap":    {unix.S_IFIFO | 0o644, 0},
		"null":   {unix.S_IFCHR | 0o666, unix.Mkdev(1, 3)},
		"kept":   {unix.S_IFCHR | 0o600, unix.Mkdev(1, 3)},
		"disk":   {unix.S_IFBLK | 0o600, unix.Mkdev(259, 65537)},
	} {
		require.NoError(t, unix.Mknod(s.path(name), f.mode, int(f.dev)))
		require.NoError(t, unix.Chmod(s.path(name), f.mode&0o7777))
	}
}

// TestSpecialFiles opens special files as users that may and users that may
// not, on mounts with and without delegations.
func TestSpecialFiles(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) *testServer{
		"no delegation held": func(t *testing.T) *testServer { return newServer(t, nil) },
		"held":               func(t *testing.T) *testServer { return newGrantingServer(t, true) },
		"read only":          func(t *testing.T) *testServer { return newServerWith(t, nil, nil, exports.Options{ReadOnly: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			createSpecialFiles(t, s)
			m := s.mount(nil)
			out, err := m.runShell(nextUser, nextUser, nil, "ls -ln; ls -ln")
			require.NoError(t, err, out)
			for _, tt := range []struct {
				user uint32
				file string
				want string // for type, read, write, both and create
			}{
				{oneUser, "closed", "- 0600 1, EACCES, EACCES, EACCES, EACCES"},
				{0, "closed", "p 0600 1, ok, ENXIO, ok, ok"},
				{oneUser, "closed", "- 0600 1, EACCES, EACCES, EACCES, EACCES"},
				{oneUser, "open", "p 0666 1, ok, ENXIO, ok, ok"},
				{0, "open", "p 0666 1, ok, ENXIO, ok, ok"},
				{oneUser, "log", "- 0622 1, EACCES, EACCES, EACCES, EACCES"},
				{nextUser, "tap", "- 0644 1, EACCES, EACCES, EACCES, EACCES"},
				{0, "tap", "p 0644 1, ok, ENXIO, ok, ok"},
				{oneUser, "null", "c 0666 1, ok, ok, ok, ok"},
				{oneUser, "kept", "- 0600 1, EACCES, EACCES, EACCES, EACCES"},
				{0, "kept", "c 0600 1, ok, ok, ok, ok"},
				{nextUser, "disk", "- 0600 1, EACCES, EACCES, EACCES, EACCES"},
			} {
				got := m.tryAs(tt.user, tt.file, "type", "read", "write", "both", "create")
				for i := range got {
					_, got[i], _ = strings.Cut(got[i], ": ")
				}
				assert.Equal(t, tt.want, strings.Join(got, ", "), "%s by %d", tt.file, tt.user)
			}
		})
	}
}

// TestSpecialFilesOfSquashed checks that the server decides, even for root if
// the server squashes root, and without allow_other.
func TestSpecialFilesOfSquashed(t *testing.T) {
	s := newServerWith(t, nil, nil, exports.Options{AllSquash: true})
	createSpecialFiles(t, s)
	for _, direct := range []bool{true, false} {
		m := s.mount(func(c *Config) { c.Direct = direct })
		assert.Equal(t, []string{"both: EACCES"}, m.tryAs(0, "closed", "both"))
		assert.Equal(t, []string{"both: ok"}, m.tryAs(0, "open", "both"))
	}
}

// TestShutFile checks that the owner of a special file can change it even if
// the owner may not open it.
func TestShutFile(t *testing.T) {
	s, m := newMount(t)
	nodes := len(m.table.listNodes())
	assert.Equal(t, []string{
		"mkfifo: ok", "type: - 0 1", "both: EACCES", "truncate: EINVAL",
		"allow: ok", "type: p 0666 1", "both: ok", "link: ok", "type: p 0666 2",
		"deny: ok", "type: - 0 2", "both: EACCES", "link: EEXIST",
		"rename: ok", "type: ENOENT",
	}, m.tryAs(oneUser, "a", "mkfifo", "type", "both", "truncate", "allow", "type", "both", "link", "type",
		"deny", "type", "both", "link", "rename", "type"))
	assert.Equal(t, []string{"link: ok", "type: - 0 3"}, m.tryAs(oneUser, "a.new", "link", "type"), "linked as a regular file, as this user sees it")
	assert.Equal(t, []string{"type: p 0 3", "both: ok"}, m.tryAs(0, "a.new.link", "type", "both"))
	for _, name := range []string{"a.new", "a.link", "a.new.link"} {
		assert.Equal(t, []string{"unlink: ok"}, m.tryAs(oneUser, name, "unlink"))
	}
	assert.Empty(t, listNames(t, s.dir))
	assert.Eventually(t, func() bool { return len(m.table.listNodes()) == nodes }, 10*time.Second, time.Millisecond,
		"the kernel forgot it by both of its numbers")
}

// TestShutInTurns opens a FIFO concurrently as a user that may, and as a user
// that may not.
func TestShutInTurns(t *testing.T) {
	s, m := newMount(t)
	createSpecialFiles(t, s)
	root, user, next := m.startTryAs(0, "closed", "often"), m.startTryAs(oneUser, "closed", "often"), m.startTryAs(nextUser, "open", "often")
	assert.Equal(t, []string{"often: ok"}, root())
	assert.Equal(t, []string{"often: EACCES"}, user())
	assert.Equal(t, []string{"often: ok"}, next())
}

// TestSockets checks that connecting to a program's socket requires the right
// to write.
func TestSockets(t *testing.T) {
	s, m := newMount(t)
	listening := m.startTryAs(0, "s", "listen")
	require.Eventually(t, func() bool {
		_, err := os.Lstat(s.path("s.ready"))
		return err == nil
	}, tryLimit, time.Millisecond)
	for _, tt := range []struct {
		mode uint32
		user uint32
		want string
	}{
		{0o600, oneUser, "ECONNREFUSED"},
		{0o600, 0, "ok"},
		{0o600, oneUser, "ECONNREFUSED"},
		{0o666, oneUser, "ok"},
		{0o644, oneUser, "ECONNREFUSED"},
		{0o622, oneUser, "ok"},
		{0o600, nextUser, "ECONNREFUSED"},
		{0o600, 0, "ok"},
	} {
		require.NoError(t, unix.Chmod(s.path("s"), tt.mode))
		assert.Equal(t, []string{"connect: " + tt.want}, m.tryAs(tt.user, "s", "connect"), "mode %#o, user %d", tt.mode, tt.user)
	}
	require.NoError(t, unix.Chmod(s.path("s"), 0o600))
	assert.Equal(t, []string{"read: EACCES"}, m.tryAs(oneUser, "s", "read"))
	assert.Equal(t, []string{"read: ENXIO"}, m.tryAs(0, "s", "read"))
	assert.Equal(t, []string{"listen: ok"}, listening())
	assert.Equal(t, []string{"connect: ECONNREFUSED"}, m.tryAs(0, "s", "connect"), "no listener is left")
}

// TestSpecialListed checks that a listing leaves access to special files to
// LOOKUP.
func TestSpecialListed(t *testing.T) {
	s, m := newMount(t)
	createSpecialFiles(t, s)
	writeFile(t, s.path("file"), nil)
	nodes := len(m.table.listNodes())
	require.Len(t, listNames(t, m.dir), 8)
	assert.Len(t, m.table.listNodes(), nodes+1, "the file alone is known")
}

// TestShutUntold checks a LOOKUP that fails after the kernel has received a reply:
// the kernel keeps its earlier references to the node.
func TestShutUntold(t *testing.T) {
	s, m := newMount(t)
	createSpecialFiles(t, s)
	assert.Equal(t, []string{"type: p 0600 1"}, m.tryAs(0, "closed", "type"))
	n := m.table.findChild(m.table.findNode(1), "closed")
	lookups := func() uint64 {
		m.table.mu.RLock()
		defer m.table.mu.RUnlock()
		return n.lookups
	}
	before := lookups()
	require.NotZero(t, before)
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Proc != nfs3.ProcAccess {
			return nil
		}
		m.ops.mu.Lock()
		defer m.ops.mu.Unlock()
		for _, o := range m.ops.all {
			close(o.done)
			o.answered = true
			m.ops.lateCount++
		}
		return errors.New("gone")
	})
	assert.Equal(t, fuse.EIO, m.Lookup(nil, &fuse.InHeader{NodeId: 1}, "closed", new(fuse.EntryOut)))
	m.setBefore(nil)
	assert.Equal(t, before, lookups())
}

// TestCreateTaken opens a name with O_CREAT while another client creates a FIFO
// there. It checks that the rights to the FIFO decide.
func TestCreateTaken(t *testing.T) {
	s, m := newMount(t)
	nodes := len(m.table.listNodes())
	for _, tt := range []struct {
		name string
		user uint32
		want string
	}{{"a", 0, "ok"}, {"b", oneUser, "EACCES"}} {
		m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
			if x.Prog == nfs3.Program && x.Proc == nfs3.ProcCreate {
				return unix.Mkfifo(s.path(tt.name), 0o600)
			}
			return nil
		})
		assert.Equal(t, []string{"create: " + tt.want}, m.tryAs(tt.user, tt.name, "create"))
		m.setBefore(nil)
		assert.Equal(t, []string{"unlink: ok"}, m.tryAs(0, tt.name, "unlink"))
	}
	assert.Eventually(t, func() bool { return len(m.table.listNodes()) == nodes }, 10*time.Second, time.Millisecond, "the kernel forgot them")
	m.files.mu.RLock()
	defer m.files.mu.RUnlock()
	assert.Empty(t, m.files.all)
}
