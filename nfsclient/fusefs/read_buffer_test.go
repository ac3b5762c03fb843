package fusefs

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestReadBuffers checks that readBuffers lends readBufferSpace bytes, no more, and
// frees the memory when none of it has been used for a while.
func TestReadBuffers(t *testing.T) {
	var s readBuffers
	assert.Nil(t, s.get(minReadBuffer-1))
	assert.Nil(t, s.get(maxTransfer+1))
	assert.Nil(t, s.mem, "no reader needs memory")
	var lent []*readBuffer
	for r := s.get(maxTransfer); r != nil; r = s.get(minReadBuffer) {
		for i := range r.mem {
			r.mem[i] = byte(len(lent))
		}
		lent = append(lent, r)
	}
	require.Len(t, lent, readBufferSpace/maxTransfer)
	for i, r := range lent {
		assert.Equal(t, bytes.Repeat([]byte{byte(i)}, maxTransfer), r.mem, "no other owner")
	}
	for _, r := range lent[1:] {
		r.Done()
	}
	assert.Same(t, lent[len(lent)-1], s.get(maxTransfer), "the one used last")
	lent[len(lent)-1].Done()
	s.unmapIdle()
	s.unmapIdle()
	assert.NotNil(t, s.mem, "a single loan")
	lent[0].Done()
	s.get(maxTransfer).Done()
	s.unmapIdle()
	assert.NotNil(t, s.mem, "one was used")
	s.unmapIdle()
	assert.Nil(t, s.mem)
	s.get(maxTransfer).Done()
	s.close()
	assert.Nil(t, s.mem)
}

// TestLargeReadFails checks that errors are reported for large READs too, and
// that the end of a file is not an error.
func TestLargeReadFails(t *testing.T) {
	s, m := newMount(t)
	data := randomBytes(maxTransfer)
	writeFile(t, s.path("a"), data)
	f := openAt(t, m.path("a"), os.O_RDONLY)
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcRead {
			return oncrpc.ErrClosed
		}
		return nil
	})
	got := make([]byte, len(data))
	_, err := f.ReadAt(got, 0)
	assert.ErrorIs(t, err, unix.EIO)
	m.setBefore(nil)
	n, err := f.ReadAt(got, 0)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got[:n]))
	past := openAt(t, m.path("a"), os.O_RDONLY|unix.O_DIRECT)
	_, err = past.ReadAt(got, 4*maxTransfer)
	assert.ErrorIs(t, err, io.EOF)
	m.readBuffers.mu.Lock()
	defer m.readBuffers.mu.Unlock()
	assert.Len(t, m.readBuffers.free, readBufferSpace/maxTransfer, "all buffers were returned")
}

// buffersFS is a file system with one file, f. It overwrites the data of a READ
// when go-fuse calls Done.
type buffersFS struct {
	fuse.RawFileSystem
	readBuffers readBuffers
	data        []byte
}

type clearedBuffer struct{ *readBuffer }

func (r clearedBuffer) Done() {
	clear(r.mem)
	r.readBuffer.Done()
}

func (s *buffersFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, _ string, out *fuse.EntryOut) fuse.Status {
	out.NodeId = 2
	out.Attr = fuse.Attr{Ino: 2, Mode: fuse.S_IFREG | 0o644, Size: uint64(len(s.data))}
	return fuse.OK
}

func (s *buffersFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr = fuse.Attr{Ino: in.NodeId, Mode: fuse.S_IFDIR | 0o755}
	if in.NodeId == 2 {
		out.Attr = fuse.Attr{Ino: 2, Mode: fuse.S_IFREG | 0o644, Size: uint64(len(s.data))}
	}
	return fuse.OK
}

func (s *buffersFS) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (s *buffersFS) Read(_ <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	r := s.readBuffers.get(max(len(p), minReadBuffer))
	r.n = copy(r.mem[:len(p)], s.data[min(in.Offset, uint64(len(s.data))):])
	return clearedBuffer{r}, fuse.OK
}

// TestReadBufferIsWrittenFirst checks that go-fuse calls Done only when the kernel
// has the data.
func TestReadBufferIsWrittenFirst(t *testing.T) {
	needFUSE(t)
	s := &buffersFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), data: randomBytes(3<<20 + 5)}
	defer s.readBuffers.close()
	dir := t.TempDir()
	srv, err := fuse.NewServer(s, dir, &fuse.MountOptions{DirectMount: true, DisableSplice: true, MaxWrite: maxTransfer, Options: []string{"default_permissions"}})
	require.NoError(t, err)
	go srv.Serve()
	require.NoError(t, srv.WaitMount())
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	assert.NoError(t, err)
	assert.True(t, bytes.Equal(s.data, got))
	require.NoError(t, srv.Unmount())
	assert.Len(t, s.readBuffers.free, readBufferSpace/maxTransfer, "all buffers were returned")
}
