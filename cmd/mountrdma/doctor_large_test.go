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
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestDoctorSlowDisk has a server that takes long for one READ, which is no loss of packets.
func TestDoctorSlowDisk(t *testing.T) {
	r := newRig(t)
	write(t, random(1<<18, 1), r.dir, "f")
	r.hang.Store(hanging(nfs3.Program, nfs3.ProcRead))
	found, failed := diagnose(t, 3*time.Second, r.url)
	assert.False(t, failed, found)
	saysOf(t, found, "large-calls", doctor.Warn, "98304 bytes from the server takes more than 3s, and short ones do not", "disks")
}

// TestDoctorShortCalls has a server that ends a connection at a long call.
func TestDoctorShortCalls(t *testing.T) {
	r := newTCPRig(t)
	addr := listenTCP(t, func(c net.Conn) {
		to, err := net.Dial("tcp", r.addr)
		if !assert.NoError(t, err) {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(struct{ io.Writer }{c}, to) }() // without splice, which keeps pipes
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
	found, failed := diagnose(t, 3*time.Second, addr, "--proto=tcp")
	assert.False(t, failed, found)
	saysOf(t, found, "large-calls", doctor.Warn, "the connection ended when a message of 98304 bytes was to go to the server", "shorter messages")
}

// A brokenRoot is a file system whose directories cannot be looked at by GETATTR.
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

// TestDoctorOneOfMany has an export that is of no use beside one that is.
func TestDoctorOneOfMany(t *testing.T) {
	var asked atomic.Bool
	r := newRig(t, func(_ *rpcrdma.Server, _ *iwarp.Config, cfg *nfsserver.Config) {
		broken := cfg.Exports[0]
		broken.Path, broken.FS = "/y", brokenRoot{mem.New(mem.Options{}), &asked}
		cfg.Exports = append(cfg.Exports, broken)
	})
	mnt, getattr := *hanging(mount3.Program, mount3.ProcMnt), *hanging(nfs3.Program, nfs3.ProcGetAttr)
	watch := func(req *oncrpc.Request) bool {
		if mnt(req) {
			asked.Store(false)
		} else if getattr(req) {
			asked.Store(true)
		}
		return false
	}
	r.hang.Store(&watch)
	found, failed := diagnose(t, time.Minute, r.addr)
	assert.False(t, failed, found)
	saysOf(t, found, "export", doctor.Warn, "export /y, sec=sys", "another sec=")
	_, failed = diagnose(t, time.Minute, r.addr+":/y")
	assert.True(t, failed)
}
