package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestDoctorSlowDisk has a server that is slow to serve a READ, which is no packet loss.
func TestDoctorSlowDisk(t *testing.T) {
	r := newTestServer(t)
	writeFile(t, randomBytes(1<<18, 1), r.dir, "f")
	r.holdCall.Store(matchProc(nfs3.Program, nfs3.ProcRead))
	found, failed := runDoctor(t, 3*time.Second, r.url)
	assert.False(t, failed, found)
	assertFinding(t, found, "large-calls", doctor.Warn, "98304 bytes from the server takes more than 3s, and short ones do not", "disks")
}

// TestDoctorShortCalls has a server that closes the connection at a long call.
func TestDoctorShortCalls(t *testing.T) {
	r := newTCPTestServer(t)
	addr := listenTCP(t, func(c net.Conn) {
		to, err := net.Dial("tcp", r.addr)
		if !assert.NoError(t, err) {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(struct{ io.Writer }{c}, to) }() // avoid splice, which keeps pipes
		for mark := make([]byte, 4); ; {
			if _, err := io.ReadFull(c, mark); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(mark) &^ (1 << 31)
			if n > 1<<15 {
				c.Close()
				return
			}
			b := make([]byte, n)
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			if _, err := to.Write(append(mark, b...)); err != nil {
				return
			}
		}
	})
	found, failed := runDoctor(t, 3*time.Second, addr, "--proto=tcp")
	assert.False(t, failed, found)
	assertFinding(t, found, "large-calls", doctor.Warn, "the connection ended when a message of 98304 bytes was to go to the server", "shorter messages")
}

// A brokenRoot is a file system on which GETATTR fails while on is set.
type brokenRoot struct {
	vfs.FS
	on *atomic.Bool
}

func (b brokenRoot) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if b.on.Load() {
		return vfs.Attr{}, unix.EIO
	}
	return b.FS.GetAttr(ctx, c, h)
}

// TestDoctorOneOfMany has one broken export and one that works.
func TestDoctorOneOfMany(t *testing.T) {
	var asked atomic.Bool
	r := newTestServer(t, func(_ *rpcrdma.Server, _ *iwarp.Config, cfg *nfsserver.Config) {
		broken := cfg.Exports[0]
		broken.Path, broken.FS = "/y", brokenRoot{mem.New(mem.Options{}), &asked}
		cfg.Exports = append(cfg.Exports, broken)
	})
	mnt, getattr := *matchProc(mount3.Program, mount3.ProcMnt), *matchProc(nfs3.Program, nfs3.ProcGetAttr)
	watch := func(req *oncrpc.Request) bool {
		if mnt(req) {
			asked.Store(false)
		} else if getattr(req) {
			asked.Store(true)
		}
		return false
	}
	r.holdCall.Store(&watch)
	found, failed := runDoctor(t, time.Minute, r.addr)
	assert.False(t, failed, found)
	assertFinding(t, found, "export", doctor.Warn, "export /y, sec=sys", "another sec=")
	_, failed = runDoctor(t, time.Minute, r.addr+":/y")
	assert.True(t, failed)
}
