package main

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
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
