package nfsrdma

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// Offsets at which reads and writes of a faultyFS fail or hang.
const (
	offEIO = 4096 * (1 + iota)
	offHangs
	offFull
)

// A faultyFS is a file system on a faulty disk.
type faultyFS struct {
	vfs.FS
	mend   chan struct{} // READs at offHangs wait until it is closed
	inside atomic.Int64  // of them
}

func (f *faultyFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	switch off {
	case offEIO:
		return 0, false, vfs.MaybeAttr{}, syscall.EIO
	case offHangs:
		f.inside.Add(1)
		<-f.mend
	}
	return f.FS.Read(ctx, c, h, p, off)
}

func (f *faultyFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	if off == offFull {
		return 0, how, vfs.WCC{}, syscall.ENOSPC
	}
	return f.FS.Write(ctx, c, h, p, off, how)
}

// A pipeliner sends calls without waiting for replies.
type pipeliner struct {
	t    *testing.T
	nc   net.Conn
	next uint32
	want map[uint32]nfs3.Status // keyed by XID
}

func newPipeliner(t *testing.T, nc net.Conn) *pipeliner {
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &pipeliner{t: t, nc: nc, want: make(map[uint32]nfs3.Status)}
}

// sendCall returns a call by root whose expected status is want.
func (p *pipeliner) sendCall(want nfs3.Status, proc uint32, args, item []byte) []byte {
	p.next++
	p.want[p.next] = want
	b := make([]byte, 4)
	for _, v := range []uint32{p.next, rpcmsg.MsgCall, rpcmsg.Version, nfs3.Program, nfs3.Version, proc, rpcmsg.AuthSys, 20, 0, 0, 0, 0, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, v)
	}
	b = append(append(b, args...), item...)
	binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4))
	return b
}

// expectReplies reads n replies in any order.
func (p *pipeliner) expectReplies(n int) {
	p.t.Helper()
	for range n {
		var mark [4]byte
		_, err := io.ReadFull(p.nc, mark[:])
		require.NoError(p.t, err, "%d calls are not answered", len(p.want))
		b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
		_, err = io.ReadFull(p.nc, b)
		require.NoError(p.t, err)
		r := xdr.NewReader(b)
		xid := r.Uint32()
		_, _ = r.Uint64(), r.Uint64()
		require.Zero(p.t, r.Uint32(), "accepted")
		want, ok := p.want[xid]
		require.True(p.t, ok, "call %d has no other reply", xid)
		delete(p.want, xid)
		assert.Equal(p.t, want, nfs3.Status(r.Uint32()), "call %d", xid)
	}
}

// TestFaultyDiskOverTCP checks that the reply to a call whose disk fails has the error, and
// that calls whose disk hangs block neither earlier delayed replies nor later calls nor other
// connections: with and without TLS, with few hanging calls and many. They complete when the
// disk responds again.
func TestFaultyDiskOverTCP(t *testing.T) {
	for name, inside := range map[string]bool{"in clear": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			faulty := &faultyFS{FS: mem.New(mem.Options{Size: 1 << 20}), mend: make(chan struct{})}
			e := startEncrypted(t, func(cfg *ServerConfig) {
				cfg.Exports = []nfsserver.Export{{Path: "/x", FS: faulty, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}}
			})
			c := e.dialServer(t, ClientConfig{})
			fs, err := c.Mount(t.Context(), "/x")
			require.NoError(t, err)
			writeFile(t, fs, "f", make([]byte, 64<<10))
			found, err := c.NFS().Lookup(t.Context(), fs.Root(), "f")
			require.NoError(t, err)
			file := append(nfs3.FH(nil), found.Object...)
			dial := func() *pipeliner {
				nc, err := net.Dial("tcp", e.tcp)
				require.NoError(t, err)
				if inside {
					var conn *rpctls.Conn
					conn, err = e.anonymous.Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
					require.NoError(t, err)
					return newPipeliner(t, conn)
				}
				return newPipeliner(t, nc)
			}
			p, other := dial(), dial()
			other.next = 1000 // the replay cache knows clients by their addresses
			lot := func(p *pipeliner, hung int) (stream []byte, n int) {
				getAttr := func() { stream = append(stream, p.sendCall(nfs3.OK, nfs3.ProcGetAttr, file.AppendTo(nil), nil)...) }
				read := func(want nfs3.Status, off uint64) {
					a := nfs3.ReadArgs{File: file, Offset: off, Count: 100}
					stream = append(stream, p.sendCall(want, nfs3.ProcRead, a.AppendTo(nil), nil)...)
				}
				getAttr()
				read(nfs3.ErrIO, offEIO)
				w := nfs3.WriteArgs{File: file, Offset: offFull, Data: []byte("full")}
				stream = append(stream, p.sendCall(nfs3.ErrNoSpc, nfs3.ProcWrite, w.AppendTo(nil), w.Data)...)
				read(nfs3.OK, 0)
				for i := range hung {
					if i%2 == 1 { // after each hanging call but the last
						getAttr()
					}
					read(nfs3.OK, offHangs)
				}
				return stream, 4 + hung/2
			}
			hung := int64(0)
			for _, more := range []int{1, 3, 20} {
				stream, n := lot(p, more)
				_, err := p.nc.Write(stream)
				require.NoError(t, err)
				p.expectReplies(n)
				hung += int64(more)
				stream, n = lot(other, 0)
				_, err = other.nc.Write(stream)
				require.NoError(t, err)
				other.expectReplies(n)
				require.Eventually(t, func() bool { return faulty.inside.Load() == hung }, time.Minute, time.Millisecond)
			}
			assert.Equal(t, "\x00", readText(t, fs, "f")[:1], "over RDMA")
			close(faulty.mend)
			p.expectReplies(int(hung))
			assert.Empty(t, p.want)
		})
	}
}
