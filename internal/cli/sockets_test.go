package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A fakeStore is a service manager's file descriptor store.
type fakeStore struct {
	t    *testing.T
	sock *net.UnixConn
	done chan struct{}

	mu    sync.Mutex
	files map[string]*os.File
}

func newFakeStore(t *testing.T) *fakeStore {
	name := filepath.Join(t.TempDir(), "notify")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Setenv("NOTIFY_SOCKET", name)
	s := &fakeStore{t: t, sock: sock, files: make(map[string]*os.File), done: make(chan struct{})}
	go s.serveMessages()
	t.Cleanup(func() { sock.Close() })
	return s
}

func (s *fakeStore) serveMessages() {
	defer close(s.done)
	b, control := make([]byte, 4096), make([]byte, 64)
	for {
		n, c, _, _, err := s.sock.ReadMsgUnix(b, control)
		if err != nil {
			return
		}
		state := string(b[:n])
		_, name, _ := strings.Cut(state, "FDNAME=")
		var fd int
		if c > 0 {
			messages, err := unix.ParseSocketControlMessage(control[:c])
			assert.NoError(s.t, err)
			fds, err := unix.ParseUnixRights(&messages[0])
			assert.NoError(s.t, err)
			fd = fds[0]
		}
		switch {
		case strings.HasPrefix(state, "FDSTORE=1\n"):
			s.addFile(name, os.NewFile(uintptr(fd), name))
		case strings.HasPrefix(state, "FDSTOREREMOVE=1\n"):
			s.removeFile(name)
		case state == "END":
			return
		case state == "BARRIER=1":
			unix.Close(fd)
		}
	}
}

func (s *fakeStore) addFile(name string, f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = f
}

func (s *fakeStore) removeFile(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name].Close()
	delete(s.files, name)
}

// takeFiles ends the store and returns the stored sockets, as a service manager passes
// them to the next process.
func (s *fakeStore) takeFiles() (files []*os.File) {
	require.True(s.t, notifyManager("END"))
	<-s.done
	for _, f := range s.files {
		files = append(files, f)
	}
	return files
}

// TestStoredSockets checks that a port stays in use between two processes, and that it
// is released if the second one listens on another address, or not at all.
func TestStoredSockets(t *testing.T) {
	store := newFakeStore(t)
	var none Sockets
	l, err := none.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	files := store.takeFiles()
	require.Len(t, files, 1)
	_, err = net.Listen("tcp", addr)
	require.ErrorIs(t, err, unix.EADDRINUSE)

	t.Run("the same address", func(t *testing.T) {
		newFakeStore(t)
		s, err := sortSockets([]*os.File{dupSocket(t, files[0])}, []string{"tcp"})
		require.NoError(t, err)
		l, err := s.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		assert.Equal(t, addr, l.Addr().String())
		require.NoError(t, l.Close())
	})
	t.Run("no address", func(t *testing.T) {
		store := newFakeStore(t)
		store.addFile(files[0].Name(), dupSocket(t, files[0]))
		s, err := sortSockets([]*os.File{dupSocket(t, files[0])}, []string{"tcp"})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		assert.Empty(t, store.takeFiles())
	})
	t.Run("no store", func(t *testing.T) {
		store := newFakeStore(t)
		store.addFile(files[0].Name(), dupSocket(t, files[0]))
		s, err := sortSockets([]*os.File{dupSocket(t, files[0])}, []string{"tcp"})
		require.NoError(t, err)
		s.DisableStore()
		l, err := s.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		assert.NotEqual(t, addr, l.Addr().String())
		require.NoError(t, l.Close())
		assert.Empty(t, store.takeFiles())
	})
	t.Run("another address", func(t *testing.T) {
		store := newFakeStore(t)
		store.addFile(files[0].Name(), dupSocket(t, files[0]))
		s, err := sortSockets(files, []string{"tcp"})
		require.NoError(t, err)
		l, err := s.Listen("tcp", addr)
		require.NoError(t, err, "the stored socket must be closed")
		require.NoError(t, l.Close())
		assert.Len(t, store.takeFiles(), 1)
	})
}

// TestStoredSocketOfAnotherUse checks that a use can take another use's address.
func TestStoredSocketOfAnotherUse(t *testing.T) {
	store := newFakeStore(t)
	f := storedSocket(t, "tcp", "127.0.0.1:1", "127.0.0.1:0")
	addr, err := net.FileListener(f)
	require.NoError(t, err)
	require.NoError(t, addr.Close())
	store.addFile(f.Name(), dupSocket(t, f))
	s, err := sortSockets([]*os.File{f}, []string{"rdma", "tcp"})
	require.NoError(t, err)
	l, err := s.Listen("rdma", addr.Addr().String())
	require.NoError(t, err, "the stored socket must be closed")
	defer l.Close()
	left := store.takeFiles()
	require.Len(t, left, 1)
	assert.Equal(t, storedName("rdma", addr.Addr().String()), left[0].Name())
	require.NoError(t, left[0].Close())
}

// TestStoredSocketOfAnotherPort checks that a use whose port another program has leaves the stored
// sockets of other ports open: their clients wait for the second process.
func TestStoredSocketOfAnotherPort(t *testing.T) {
	newFakeStore(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	s, err := sortSockets([]*os.File{storedSocket(t, "tcp", "127.0.0.1:0", "127.0.0.1:0")}, []string{"rdma", "tcp"})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Listen("rdma", other.Addr().String())
	require.ErrorIs(t, err, unix.EADDRINUSE)
	assert.Len(t, s.stored, 1)
}

// storedSocket returns a socket that listens on at, named as if it had been stored for a
// use and an address.
func storedSocket(t *testing.T, use, addr, at string) *os.File {
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	var f *os.File
	require.NoError(t, raw.Control(func(fd uintptr) {
		dup, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		f = os.NewFile(uintptr(dup), storedName(use, addr))
	}))
	return f
}

// TestStoredSocketOfName checks that a stored socket is closed if the address of its
// host name has changed.
func TestStoredSocketOfName(t *testing.T) {
	newFakeStore(t)
	f := storedSocket(t, "tcp", "localhost:0", "127.0.0.2:0")
	s, err := sortSockets([]*os.File{f}, []string{"tcp"})
	require.NoError(t, err)
	l, err := s.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer l.Close()
	assert.NotEqual(t, "127.0.0.2", l.Addr().(*net.TCPAddr).IP.String())
}

// TestStoredSocketOfLongName checks that a socket is not stored under a name that is too
// long for the manager.
func TestStoredSocketOfLongName(t *testing.T) {
	fake := newFakeStore(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	storeSocket(storedName("tcp", strings.Repeat("a", 121)+":0"), l.(*net.TCPListener))
	storeSocket(storedName("tcp", strings.Repeat("a", 120)+":0"), l.(*net.TCPListener))
	assert.Len(t, fake.takeFiles(), 1)
}

// dupSocket returns a duplicate descriptor of a socket.
func dupSocket(t *testing.T, f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), f.Name())
}

// TestSeveralSockets checks the bound on the sockets of one use, their order, and that a use
// with one socket takes no second one.
func TestSeveralSockets(t *testing.T) {
	passed := func(n int) (files []*os.File, addrs []string) {
		for range n {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			f, err := l.(*net.TCPListener).File()
			require.NoError(t, err)
			l.Close()
			files, addrs = append(files, os.NewFile(uintptr(moveFD(t, f)), "tcp")), append(addrs, l.Addr().String())
		}
		return files, addrs
	}
	files, addrs := passed(maxSockets)
	s, err := sortSockets(files, []string{"tcp"})
	require.NoError(t, err)
	_, err = s.Listen("tcp", "")
	assert.EqualError(t, err, `received 16 sockets named "tcp", of which one is possible: remove the others; a socket on [::] accepts all addresses`)
	all, err := s.ListenAll("tcp", "")
	require.NoError(t, err)
	for i, l := range all {
		assert.Equal(t, addrs[i], l.Addr().String())
		require.NoError(t, l.Close())
	}
	assert.False(t, s.Has("tcp"))
	require.NoError(t, s.Close())

	files, _ = passed(maxSockets + 1)
	_, err = sortSockets(files, []string{"tcp"})
	assert.EqualError(t, err, `received more than 16 sockets named "tcp": remove some; a socket on [::] accepts all addresses`)
	for _, f := range files {
		assert.ErrorIs(t, f.Close(), os.ErrClosed)
	}
}

// moveFD duplicates a file's descriptor, and closes the file.
func moveFD(t *testing.T, f *os.File) int {
	t.Helper()
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return fd
}
