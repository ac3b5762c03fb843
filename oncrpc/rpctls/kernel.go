package rpctls

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// After crypto/tls's handshake the kernel may get the keys. RPC bytes are then written to
// the TCP socket itself, and read from it, as on unencrypted connections: the kernel
// encrypts and decrypts the records.
//
//	crypto/tls ─▶ secrets ─▶ keys ─▶ socket       once, after the handshake
//	bytes ◀══════════════════════▶ socket
//	alerts, tickets, KeyUpdate ◀── socket         by control messages
//
// crypto/tls must not have read a byte after the handshake (wire.exact). No record may
// have been encrypted with the keys yet, so tickets are off.

// A kernelConn is a connection whose records the kernel encrypts. One goroutine at a time
// may read, and one write.
type kernelConn struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn
	server bool
	log    *slog.Logger

	out, in   kernelCount // used by the writer and the reader
	vec       kernelRead  // used by the reader
	unwritten net.Buffers // used by the writer: the bytes not written yet

	readErr        error // used by the reader: why nothing more can be read
	controlRecords int   // used by the reader: records in succession that are not data
	notified       atomic.Bool
	closeTimeout   time.Duration // for the last bytes
}

// A kernelCount bounds the number of records in one direction. It queries the kernel only
// if the limit would be reached with one record per byte.
type kernelCount struct {
	raw          syscall.RawConn
	suite        uint16
	direction    direction
	knownRecords uint64 // records
	bytes        uint64 // since then
}

// reached reports whether the direction has had at least limit records.
func (c *kernelCount) reached(limit uint64) bool {
	if c.knownRecords+c.bytes < limit {
		return false
	}
	n, err := sequenceOf(c.raw, c.suite, c.direction)
	if err != nil {
		return true
	}
	c.knownRecords, c.bytes = n, 0
	return n >= limit
}

// A kernelRead is a read into several slices.
type kernelRead struct {
	buffers  [][]byte
	count    int
	err      error
	readFunc func(fd uintptr) bool
}

func (r *kernelRead) readVectors(fd uintptr) bool {
	for {
		r.count, r.err = unix.Readv(int(fd), r.buffers)
		if r.err != unix.EINTR {
			return r.err != unix.EAGAIN
		}
	}
}

// errKernelLost reports that the kernel has only one direction's keys.
var errKernelLost = errors.New("rpctls: the kernel accepted one direction's keys, but not the other's")

// enterKernel gives the kernel a connection's keys. If the kernel does not accept them,
// it returns the kernel's error, and the connection continues as before, unless the error
// is errKernelLost.
func enterKernel(nc net.Conn, module string, suite uint16, secrets *trafficSecrets, server bool) (*kernelConn, error) {
	tcp, raw, err := rawTCP(nc)
	if err != nil {
		return nil, err
	}
	var keys [2][]byte
	for i, d := range [2]direction{sending, receiving} {
		if keys[i], err = cryptoInfo(suite, secrets.forDirection(d, server)); err != nil {
			return nil, err
		}
		defer clear(keys[i])
	}
	cerr := raw.Control(func(fd uintptr) {
		if err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_ULP, module); err != nil {
			return
		}
		if err = setOption(fd, unix.SOL_TLS, int(sending), keys[0]); err != nil {
			return
		}
		if rerr := setOption(fd, unix.SOL_TLS, int(receiving), keys[1]); rerr != nil {
			err = fmt.Errorf("%w: %w", errKernelLost, rerr)
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, err
	}
	k := &kernelConn{tcp: tcp, raw: raw, server: server, closeTimeout: closeTimeout}
	k.out = kernelCount{raw: raw, suite: suite, direction: sending}
	k.in = kernelCount{raw: raw, suite: suite, direction: receiving}
	k.vec.readFunc = k.vec.readVectors
	return k, nil
}

// Read reads data into p.
func (k *kernelConn) Read(p []byte) (int, error) {
	return k.readData(func() (int, error) { return k.tcp.Read(p) })
}

// ReadBuffers reads data into v's slices, one after the other, with one system call.
func (k *kernelConn) ReadBuffers(v [][]byte) (int, error) {
	return k.readData(func() (int, error) {
		k.vec.buffers = v
		err := k.raw.Read(k.vec.readFunc)
		k.vec.buffers = nil
		switch {
		case err != nil:
			return 0, err
		case k.vec.err != nil:
			return 0, k.vec.err
		case k.vec.count == 0:
			return 0, io.EOF
		}
		return k.vec.count, nil
	})
}

// readData reads data, and handles the control records in between, at which the kernel
// stops with EIO. A FIN without a closure alert is an error, as in wire.Read.
func (k *kernelConn) readData(read func() (int, error)) (int, error) {
	for k.readErr == nil {
		n, err := read()
		if n > 0 {
			k.in.bytes += uint64(n)
			k.controlRecords = 0
		}
		switch {
		case err == io.EOF:
			k.readErr = errCut
		case errors.Is(err, unix.EIO):
			k.in.bytes++ // a control record counts too
			k.readErr = k.handleControlRecord()
		case errors.Is(err, unix.EBADMSG):
			k.readErr = fmt.Errorf("rpctls: a TLS record from the peer, or from an attacker on the network, fails its integrity check: %w", err)
		default:
			return n, err
		}
	}
	return 0, k.readErr
}

// Handshake messages (RFC 8446, Section 4) and alerts (Section 6).
const (
	messageTicket    = 4
	messageKeyUpdate = 24

	alertClose    = 0
	alertCanceled = 90
)

var errIdle = errors.New("rpctls: too many consecutive TLS records are not data")

// handleControlRecord handles the next record, which is not data. It returns why the
// connection must be closed, or nil.
func (k *kernelConn) handleControlRecord() error {
	if k.controlRecords++; k.controlRecords > maxControlRecords {
		return errIdle
	}
	content := make([]byte, maxRecordContent)
	kind, n, err := nextRecord(k.raw, content)
	if err != nil {
		return fmt.Errorf("rpctls: cannot read a TLS record from the kernel: %w", err)
	}
	switch content = content[:n]; {
	case kind == typeAlert && n == 2 && content[1] == alertClose:
		return io.EOF
	case kind == typeAlert && n == 2 && content[1] == alertCanceled:
		return nil // the closure alert follows
	case kind == typeAlert && n == 2:
		return &net.OpError{Op: "remote error", Err: tls.AlertError(content[1])}
	case kind == typeHandshake && n > 0: // RFC 8446, Section 5.1
		return k.handlePostHandshake(content)
	}
	return fmt.Errorf("rpctls: unexpected TLS record with type %d and %d bytes", kind, n)
}

// handlePostHandshake handles messages after the handshake. Everything after a KeyUpdate
// needs new keys, and most kernels cannot change them: the stream ends there, as if the
// peer had closed it, and another connection replaces it.
func (k *kernelConn) handlePostHandshake(content []byte) error {
	for len(content) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(content)&0xffffff)
		switch {
		case content[0] == messageKeyUpdate:
			k.log.Info("the peer updates its TLS keys, which the kernel does not support: closing the connection", "peer", k.tcp.RemoteAddr())
			return io.EOF
		case content[0] != messageTicket || k.server || n > len(content):
			return fmt.Errorf("rpctls: unexpected message with type %d after the TLS handshake", content[0])
		}
		content = content[n:]
	}
	if len(content) > 0 {
		return errors.New("rpctls: incomplete message after the TLS handshake")
	}
	return nil
}

// WriteBuffers writes v, and removes the written bytes from v.
func (k *kernelConn) WriteBuffers(v *net.Buffers) (int64, error) {
	k.unwritten = *v // v itself would escape to the heap of every caller
	n, err := k.unwritten.WriteTo(k.tcp)
	*v, k.unwritten = k.unwritten, nil
	k.out.bytes += uint64(max(n, 0))
	return n, err
}

// closeWrite sends the closure alert, and then a FIN.
func (k *kernelConn) closeWrite() error {
	_ = k.tcp.SetWriteDeadline(time.Now().Add(k.closeTimeout))
	err := k.sendCloseAlert()
	k.awaitSendQueue(func(queued, _ int) bool { return queued == 0 })
	return errors.Join(err, k.tcp.CloseWrite())
}

// sendAlertAndClose sends the closure alert, and closes the socket.
func (k *kernelConn) sendAlertAndClose() error {
	_ = k.tcp.SetWriteDeadline(time.Now().Add(k.closeTimeout)) // also interrupts a write in progress
	_ = k.sendCloseAlert()                                     // the peer may no longer read it
	k.awaitSendQueue(func(queued, most int) bool { return queued <= most/2 })
	if err := k.tcp.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // it was aborted
}

func (k *kernelConn) sendCloseAlert() error {
	if k.notified.Swap(true) {
		return nil
	}
	const warning = 1
	return sendRecord(k.raw, typeAlert, []byte{warning, alertClose})
}

// awaitSendQueue waits a short time until the kernel has passed its records to TCP. While
// TCP has no memory for them, they wait separately, and a FIN would overtake them. The
// kernel passes them on when the peer's acknowledgements free memory.
func (k *kernelConn) awaitSendQueue(enough func(queued, most int) bool) {
	for until := time.Now().Add(k.closeTimeout); !enough(sendQueue(k.raw)) && time.Now().Before(until); {
		time.Sleep(settlePause)
	}
}
