package iwarp

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestStallWithinMessage checks that a peer that stops between a message's
// FPDUs loses the connection, as a peer that stops within an FPDU does.
func TestStallWithinMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		time.Sleep(24 * time.Hour)
		p.sendSegments(sendSeg(false, 1, 0, []byte("hel")))
		time.Sleep(stallTimeout / 2)
		p.sendSegments(sendSeg(false, 1, 3, []byte("lo"))) // in time
		time.Sleep(stallTimeout/2 - time.Second)
		assert.Empty(t, e.inbox.closed)
		lent := buf.Default.Out()
		time.Sleep(2 * time.Second)
		assert.True(t, isTimeout(e.inbox.closeError(t)))
		assert.Equal(t, lent-2, buf.Default.Out(), "the message's buffer, and the connection's")
	})
	inBubble(t, func(t *testing.T, e endpoint, p *rawPeer, _ <-chan struct{}) {
		done := make(completionWaiter, 1)
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 10)}, Done: done}))
		req := p.expectReadRequest()
		time.Sleep(24 * time.Hour) // the upper layer must judge this idle time
		assert.Empty(t, e.inbox.closed)
		p.sendSegments(responseSeg(false, req.SinkSTag, req.SinkTO, []byte("half")))
		time.Sleep(stallTimeout + time.Second)
		assert.True(t, isTimeout(e.inbox.closeError(t)))
		require.ErrorIs(t, (<-done).Err, rdma.ErrFlushed)
	})
}

// TestCrowd checks that a party that opens connections and sends nothing on
// them locks out no other party, and that no other party's start-up is closed
// because of it (R5042-3-1, R5042-6.4.1-1).
func TestCrowd(t *testing.T) {
	checkLeaks(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	ln := deviceWith(Config{CRC: mpa.CRCOff}).NewListener(l)
	defer ln.Close()
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from + ":0"))}
		nc, err := d.DialContext(t.Context(), "tcp4", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	slow := dial("127.0.0.3")
	for range maxStarting + 10 {
		dial("127.0.0.2")
	}
	for range 5 { // each is accepted
		go func() {
			if req, err := ln.Accept(t.Context()); err == nil {
				_ = req.Reject(nil)
			}
		}()
		_, err = testDevice.Client(t.Context(), dial("127.0.0.4"), rdma.ConnConfig{Handler: newInbox()})
		var rejected *RejectedError
		require.ErrorAs(t, err, &rejected)
	}
	_ = slow.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err = slow.Read(make([]byte, 1))
	require.True(t, isTimeout(err), "%v", err)
}

// TestThin checks that closeOldestStartups closes the older half of those start-ups that the party
// with the most has.
func TestThin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newPipeListener()
		ln := deviceWith(Config{StartupTimeout: time.Hour}).NewListener(pl)
		defer ln.Close()
		var peers []net.Conn
		for range maxStarting {
			nc, err := pl.dialPipe()
			require.NoError(t, err)
			defer nc.Close()
			peers = append(peers, nc)
			synctest.Wait()
		}
		time.Sleep(crowdedTime - time.Millisecond)
		for _, nc := range peers {
			assert.True(t, isOpen(nc))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for i, nc := range peers {
			assert.Equal(t, i >= maxStarting/2, isOpen(nc), i)
		}
	})
}

// isOpen reports whether a pipe's peer waits for bytes; the peer gets a byte
// then.
func isOpen(nc net.Conn) bool {
	_, err := nc.Write([]byte{'M'})
	return err == nil
}
