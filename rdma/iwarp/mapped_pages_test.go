package iwarp

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A delayedMemory is memory whose pages come when the test says so, like a file's pages on a disk
// that does not answer: userfaultfd(2).
type delayedMemory struct {
	t   *testing.T
	mem []byte
	fd  int
}

func newDelayedMemory(t *testing.T, size int) *delayedMemory {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	require.Zero(t, errno, "this test needs root")
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	l := &delayedMemory{t: t, mem: mem, fd: int(fd)}
	t.Cleanup(func() {
		assert.NoError(t, unix.Close(l.fd))
		assert.NoError(t, unix.Munmap(mem))
	})
	l.callIoctl(0xc018aa3f, 0xaa, 0, 0)                        // UFFDIO_API
	l.callIoctl(0xc020aa00, l.startAddr(), uint64(size), 1, 0) // UFFDIO_REGISTER, for missing pages
	return l
}

func (l *delayedMemory) startAddr() uint64 { return uint64(uintptr(unsafe.Pointer(&l.mem[0]))) }

func (l *delayedMemory) callIoctl(request uintptr, words ...uint64) {
	l.t.Helper()
	arg := append(words, 0, 0)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), request, uintptr(unsafe.Pointer(&arg[0])))
	require.Zero(l.t, errno)
}

// awaitFault waits until somebody waits for a page.
func (l *delayedMemory) awaitFault() {
	l.t.Helper()
	var event [32]byte
	n, err := unix.Read(l.fd, event[:])
	require.NoError(l.t, err)
	require.Equal(l.t, len(event), n)
	require.Zero(l.t, event[0]&^0x12, "UFFD_EVENT_PAGEFAULT")
	require.Less(l.t, binary.NativeEndian.Uint64(event[16:])-l.startAddr(), uint64(len(l.mem)))
}

// providePages lets all pages come, with content.
func (l *delayedMemory) providePages(content []byte) {
	l.t.Helper()
	l.callIoctl(0xc028aa03, l.startAddr(), uint64(uintptr(unsafe.Pointer(&content[0]))), uint64(len(content)), 0, 0) // UFFDIO_COPY
}

// TestLatePages checks that a connection with CRC, whose data are in pages that do not come,
// holds up neither the garbage collector, and by it the whole process, nor other
// connections.
func TestLatePages(t *testing.T) {
	for _, name := range []string{"tcp, crc", "markers"} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, transports[name])
			c, d := connectPair(t, transports["tcp, crc"])
			l := newDelayedMemory(t, 8*int(pageSize))
			sink, done := make([]byte, len(l.mem)), make(completionWaiter, 1)
			r, err := b.Register(sink, rdma.RemoteWrite)
			require.NoError(t, err)
			go a.Post(rdma.WR{
				Op: rdma.OpWrite, Data: [][]byte{l.mem}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
				Reread: func([]byte, int) (int, int) { t.Error("the memory can be read"); return 0, 0 },
			})
			l.awaitFault()
			assert.True(t, a.AwaitsSource(), "the peer is not to blame")
			runtime.GC()
			sendFirst(t, c, d)
			sendFirst(t, d, c)
			l.providePages(patternBytes(len(l.mem)))
			require.NoError(t, done.wait(t).Err)
			sendFirst(t, a, b)
			assert.False(t, a.AwaitsSource())
			r.Deregister()
			assert.Equal(t, patternBytes(len(sink)), sink)
		})
	}
}

// TestShortFPDUs checks that mappings are not made readable for each FPDU, when a READ over an
// Ethernet has hundreds, and that it is done again for later batches.
func TestShortFPDUs(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, transports["tcp, crc"])
	a.mulpdu = 1448
	calls := 0
	a.tx.readable = func(mem []byte) bool { calls++; return makeReadable(mem) }
	size := 1<<20 - 1
	file, _ := mapFile(t, size)
	sink, done := make([]byte, size), make(completionWaiter, 1)
	r, err := b.Register(sink, rdma.RemoteWrite)
	require.NoError(t, err)
	require.NoError(t, a.Post(rdma.WR{
		Op: rdma.OpWrite, Data: [][]byte{file[:size/3], file[size/3:]}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
		Reread: func([]byte, int) (int, int) { t.Error("the memory can be read"); return 0, 0 },
	}))
	require.NoError(t, done.wait(t).Err)
	sendFirst(t, a, b)
	r.Deregister()
	assert.Equal(t, file, sink)
	assert.Less(t, calls, 40)
	assert.GreaterOrEqual(t, calls, size/maxReadable)
}

// TestNotResident checks that data are read by another way if the kernel cannot fetch pages
// before they are read, as before Linux 5.14, and they are not in memory.
func TestNotResident(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, transports["tcp, crc"])
	a.tx.readable = func(mem []byte) bool { return isResident(pagesOf(mem)) }
	fd, err := unix.MemfdCreate(t.Name(), 0)
	require.NoError(t, err)
	size := 100 * int(pageSize)
	require.NoError(t, unix.Ftruncate(fd, int64(size))) // a hole has no pages
	file, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(file)
	defer unix.Close(fd)
	for _, there := range []bool{false, true} {
		calls := 0
		require.Equal(t, there, isResident(pagesOf(file)))
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{file[1:200]}, Reread: func(p []byte, at int) (int, int) {
			calls++
			return copy(p, patternBytes(size)[1+at:]), 0
		}}))
		assert.Equal(t, patternBytes(size)[1:200], b.inbox.nextMessage(t))
		assert.Equal(t, there, calls == 0)
		_, err = unix.Pwrite(fd, patternBytes(size), 0)
		require.NoError(t, err)
	}
}

// TestMakeReadable checks pages that are in memory, in a hole, and beyond a file's end.
func TestMakeReadable(t *testing.T) {
	size := 3 * int(pageSize)
	file, cut := mapFile(t, size)
	assert.True(t, makeReadable(file))
	assert.True(t, makeReadable(file[1:2]))
	cut(int64(size - 1))
	assert.True(t, makeReadable(file), "the rest of the page")
	cut(int64(pageSize))
	assert.True(t, makeReadable(file[:pageSize]))
	assert.False(t, makeReadable(file[:pageSize+1]))
	assert.False(t, makeReadable(file[size-1:]))
	assert.True(t, makeReadable(patternBytes(100_000)), "memory of Go")
}

// TestLatePagesBehindVanished checks that the processor reads no other data in a batch if the
// kernel could not read one part: their disk may not answer.
func TestLatePagesBehindVanished(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, transports["tcp"])
	file, cut := mapFile(t, 10_000)
	cut(0)
	l := newDelayedMemory(t, 8*int(pageSize))
	size := len(file) + len(l.mem)
	sink, done := make([]byte, size), make(completionWaiter, 1)
	r, err := b.Register(sink, rdma.RemoteWrite)
	require.NoError(t, err)
	require.NoError(t, a.Post(rdma.WR{
		Op: rdma.OpWrite, Data: [][]byte{file, l.mem}, Remote: rdma.Remote{STag: r.STag()}, Done: done,
		Reread: func(p []byte, at int) (int, int) { return copy(p, patternBytes(size)[at:]), 0 },
	}))
	require.NoError(t, done.wait(t).Err)
	sendFirst(t, a, b)
	r.Deregister()
	assert.Equal(t, patternBytes(size), sink)
}
