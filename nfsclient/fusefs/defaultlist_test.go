package fusefs

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// setDefault gives a directory of the host a default list: all rights for the
// owner and the groups, with group 4242, none for others.
func setDefault(t *testing.T, dir string) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 2)
	const noID = 1<<32 - 1
	for _, e := range []vfs.ACLEntry{
		{Tag: vfs.ACLUserObj, ID: noID, Perm: 7},
		{Tag: vfs.ACLGroupObj, ID: noID, Perm: 7},
		{Tag: vfs.ACLGroup, ID: 4242, Perm: 7},
		{Tag: vfs.ACLMask, ID: noID, Perm: 7},
		{Tag: vfs.ACLOther, ID: noID, Perm: 0},
	} {
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, e.ID)
	}
	require.NoError(t, unix.Setxattr(dir, "system.posix_acl_default", b, 0))
}

// modeAndLists returns the mode and both lists of an object of the host.
func modeAndLists(t *testing.T, path string) string {
	t.Helper()
	words := []string{fmt.Sprintf("%o", mustLstat(t, path).Mode)}
	for _, name := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		b := make([]byte, 4096)
		n, err := unix.Lgetxattr(path, name, b)
		words = append(words, fmt.Sprintf("%x %v", b[:max(0, n)], err))
	}
	return strings.Join(words, " ")
}

// makers make an object in each way that takes a mode.
var makers = map[string]func(path string) error{
	"create": func(path string) error { return closeNew(unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o666)) },
	"exclusive": func(path string) error {
		return closeNew(unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o666))
	},
	"own": func(path string) error {
		return closeNew(unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600))
	},
	"node":   func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o666, 0) },
	"fifo":   func(path string) error { return unix.Mkfifo(path, 0o666) },
	"mkdir":  func(path string) error { return unix.Mkdir(path, 0o777) },
	"socket": func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o666, 0) },
	"bound": func(path string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	},
	"symlink": func(path string) error { return unix.Symlink("target", path) },
}

func closeNew(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// TestDefaultList checks that objects made through a mount get the modes and the
// lists of objects that a local process makes: a default list replaces the umask,
// which applies everywhere else.
func TestDefaultList(t *testing.T) {
	for _, umask := range []int{0o022, 0o077, 0o002, 0} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			s, m := newMount(t)
			defer unix.Umask(unix.Umask(0))
			for _, dir := range []string{"plain", "shared", "shared/below", "plain/below"} {
				require.NoError(t, os.Mkdir(s.path(dir), 0o777))
				if dir == "shared" {
					setDefault(t, s.path(dir))
				}
			}
			unix.Umask(umask)
			for _, dir := range []string{"plain", "shared", "shared/below", "plain/below"} {
				for name, create := range makers {
					here, there := filepath.Join(dir, name+"-mount"), filepath.Join(dir, name+"-local")
					require.NoError(t, create(m.path(here)), here)
					require.NoError(t, create(s.path(there)), there)
					assert.Equal(t, modeAndLists(t, s.path(there)), modeAndLists(t, s.path(here)), here)
				}
				here, there := filepath.Join(dir, "mkdir-mount/new"), filepath.Join(dir, "mkdir-local/new")
				require.NoError(t, makers["create"](m.path(here)))
				require.NoError(t, makers["create"](s.path(there)))
				assert.Equal(t, modeAndLists(t, s.path(there)), modeAndLists(t, s.path(here)), here)
			}
		})
	}
}

// TestDefaultListIsRemembered checks that the creation of many objects seldom
// fetches the lists of directories.
func TestDefaultListIsRemembered(t *testing.T) {
	_, m := newMount(t)
	asked := m.countACLCalls()
	require.NoError(t, os.Mkdir(m.path("d"), 0o777))
	for i := range 20 {
		require.NoError(t, makers["create"](m.path(fmt.Sprintf("d/%d", i))))
		require.NoError(t, makers["exclusive"](m.path(fmt.Sprintf("d/x%d", i))))
		require.NoError(t, os.Mkdir(m.path(fmt.Sprintf("d/dir%d", i)), 0o777))
		require.NoError(t, makers["create"](m.path(fmt.Sprintf("d/dir%d/file", i))))
		require.NoError(t, os.Remove(m.path(fmt.Sprintf("d/%d", i))))
	}
	// One is for the mount's root. Sometimes the server cannot tell that a change
	// of names was the only one.
	assert.Less(t, asked.Load(), int32(10), "of 81 creations")
}

// TestDefaultListSetMeanwhile checks that a list counts that another client has set
// or removed, once the directory's attributes show it.
func TestDefaultListSetMeanwhile(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(func(c *Config) { c.DirMin, c.DirMax = 0, 0 })
	require.NoError(t, os.Mkdir(m.path("d"), 0o777))
	same := func(name string) {
		require.NoError(t, makers["create"](m.path("d/mount-"+name)))
		require.NoError(t, makers["create"](s.path("d/local-"+name)))
		assert.Equal(t, modeAndLists(t, s.path("d/local-"+name)), modeAndLists(t, s.path("d/mount-"+name)), name)
	}
	defer unix.Umask(unix.Umask(0o077))
	same("before")
	setDefault(t, s.path("d"))
	same("set")
	require.NoError(t, unix.Removexattr(s.path("d"), "system.posix_acl_default"))
	same("removed")
}

// TestDefaultListOfNewDirectory checks that a directory's list is not assumed for a
// new directory in it if another client has just set that list.
func TestDefaultListOfNewDirectory(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(m.path("d"), 0o777))
	require.NoError(t, makers["create"](m.path("d/before")))
	time.Sleep(20 * time.Millisecond) // steps of the ctime
	set := sync.OnceFunc(func() { setDefault(t, s.path("d")) })
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcMkdir {
			set()
		}
		return nil
	})
	defer unix.Umask(unix.Umask(0o077))
	require.NoError(t, os.Mkdir(m.path("d/new"), 0o777))
	require.NoError(t, makers["create"](m.path("d/new/mount")))
	require.NoError(t, makers["create"](s.path("d/new/local")))
	assert.Equal(t, modeAndLists(t, s.path("d/new/local")), modeAndLists(t, s.path("d/new/mount")))
}

// TestListsNotTold checks that a creation does not fail because the server cannot
// report a directory's lists: the umask then applies.
func TestListsNotTold(t *testing.T) {
	for name, refusal := range map[string]error{
		"no right":      &nfsclient.Error{Prog: nfsacl.Program, Proc: nfsacl.ProcGetACL, Status: nfs3.ErrAcces},
		"server fault":  &nfsclient.Error{Prog: nfsacl.Program, Proc: nfsacl.ProcGetACL, Status: nfs3.ErrServerFault},
		"garbage":       &oncrpc.ReplyError{Stat: rpcmsg.GarbageArgs},
		"system error":  &oncrpc.ReplyError{Stat: rpcmsg.SystemErr},
		"another list":  nfsclient.ErrReply,
		"authenticated": rpcmsg.AuthTooWeak,
	} {
		t.Run(name, func(t *testing.T) {
			_, m := newMount(t)
			m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
				if x.Prog == nfsacl.Program {
					return refusal
				}
				return nil
			})
			defer unix.Umask(unix.Umask(0o027))
			require.NoError(t, makers["create"](m.path("f")))
			assert.EqualValues(t, 0o640, mustLstat(t, m.path("f")).Mode&0o7777)
		})
	}
}

// TestServerWithoutLists checks that a server without NFSACL receives one GETACL,
// and that the umask then applies.
func TestServerWithoutLists(t *testing.T) {
	_, m := newMount(t)
	asked := m.countACLCalls()
	before := m.before
	m.setBefore(func(ctx context.Context, x *oncrpc.Exchange) error {
		if err := before(ctx, x); err != nil || x.Prog != nfsacl.Program {
			return err
		}
		return &oncrpc.ReplyError{Stat: rpcmsg.ProgUnavail}
	})
	defer unix.Umask(unix.Umask(0o027))
	require.NoError(t, os.Mkdir(m.path("d"), 0o777))
	require.NoError(t, makers["create"](m.path("d/f")))
	require.NoError(t, makers["exclusive"](m.path("d/x")))
	assert.EqualValues(t, 0o750, mustLstat(t, m.path("d")).Mode&0o7777)
	assert.EqualValues(t, 0o640, mustLstat(t, m.path("d/f")).Mode&0o7777)
	assert.EqualValues(t, 0o640, mustLstat(t, m.path("d/x")).Mode&0o7777)
	assert.EqualValues(t, 1, asked.Load())
}

// countACLCalls returns a counter of the mount's NFSACL calls from now on.
func (m *testMount) countACLCalls() *atomic.Int32 {
	var asked atomic.Int32
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfsacl.Program {
			asked.Add(1)
		}
		return nil
	})
	return &asked
}
