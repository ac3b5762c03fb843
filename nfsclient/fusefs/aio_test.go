package fusefs

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// An iocb is Linux's struct iocb, an ioEvent its struct io_event.
type iocb struct {
	_   uint64
	_   uint64
	op  uint16
	_   uint16
	fd  uint32
	buf uintptr
	n   uint64
	off int64
	_   [2]uint64
}

type ioEvent struct {
	_, _ uint64
	res  int64
	_    int64
}

const iocbRead, iocbWrite = 0, 1 // IOCB_CMD_PREAD, IOCB_CMD_PWRITE

// An asyncIO is a context of Linux's asynchronous I/O.
type asyncIO struct {
	t   testing.TB
	ctx uintptr
}

func newAIO(t testing.TB) *asyncIO {
	a := &asyncIO{t: t}
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 64, uintptr(unsafe.Pointer(&a.ctx)), 0)
	require.Zero(t, errno)
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, a.ctx, 0, 0) })
	return a
}

// submit begins to transfer p, 1 MiB per request.
func (a *asyncIO) submit(op uint16, f *os.File, p []byte) {
	var list []*iocb
	for off := 0; off < len(p); off += 1 << 20 {
		list = append(list, &iocb{
			op: op, fd: uint32(f.Fd()), buf: uintptr(unsafe.Pointer(&p[off])), n: 1 << 20, off: int64(off),
		})
	}
	n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.ctx, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
	assert.Zero(a.t, errno)
	assert.EqualValues(a.t, len(list), n)
}

// wait waits for n requests.
func (a *asyncIO) wait(n int) {
	events := make([]ioEvent, n)
	got, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.ctx, uintptr(n), uintptr(n), uintptr(unsafe.Pointer(&events[0])), 0, 0)
	require.Zero(a.t, errno)
	require.EqualValues(a.t, n, got)
	for _, e := range events {
		assert.EqualValues(a.t, 1<<20, e.res)
	}
}

// TestAsync checks that asynchronous direct reads and writes of one process run
// concurrently.
func TestAsync(t *testing.T) {
	s, m := newMount(t)
	const blocks = 8
	p, err := unix.Mmap(-1, 0, blocks<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { assert.NoError(t, unix.Munmap(p)) }()
	want := randomBytes(len(p))
	writeFile(t, s.path("a"), make([]byte, len(p)))
	f := openAt(t, m.path("a"), os.O_RDWR|unix.O_DIRECT)
	a := newAIO(t)
	for _, tt := range []struct {
		op   uint16
		proc uint32
	}{{iocbWrite, nfs3.ProcWrite}, {iocbRead, nfs3.ProcRead}} {
		submitted, stuck := make(chan struct{}), make(chan struct{})
		m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
			if x.Proc == tt.proc {
				select {
				case <-submitted:
				case <-stuck:
				}
			}
			return nil
		})
		if tt.op == iocbWrite {
			copy(p, want)
		} else {
			clear(p)
		}
		giveUp := time.AfterFunc(10*time.Second, func() {
			assert.Fail(t, "a submitter of requests waits for the server")
			close(stuck)
		})
		a.submit(tt.op, f, p)
		giveUp.Stop()
		close(submitted)
		a.wait(blocks)
		assert.True(t, bytes.Equal(want, p))
		assertContent(t, s.path("a"), want)
	}
}

// BenchmarkAsyncRead reads 16 MiB, bypassing the page cache, with 16 requests.
func BenchmarkAsyncRead(b *testing.B) {
	s, m := newMount(b)
	const blocks = 16
	p, err := unix.Mmap(-1, 0, blocks<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(b, err)
	defer func() { assert.NoError(b, unix.Munmap(p)) }()
	writeFile(b, s.path("a"), randomBytes(len(p)))
	f := openAt(b, m.path("a"), os.O_RDONLY|unix.O_DIRECT)
	a := newAIO(b)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		a.submit(iocbRead, f, p)
		a.wait(blocks)
	}
}
