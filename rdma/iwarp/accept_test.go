package iwarp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// rawInitiator connects a raw peer, which has not sent an MPA frame, to a
// listener.
func rawInitiator(t testing.TB, cfg Config) (*Listener, *rawPeer) {
	t.Helper()
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := deviceWith(cfg).NewListener(tl)
	nc, err := net.Dial("tcp", tl.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		ln.Close()
	})
	return ln, &rawPeer{t: t, nc: nc}
}

// acceptPeer accepts the waiting peer.
func acceptPeer(t testing.TB, ln *Listener, cc rdma.ConnConfig) endpoint {
	t.Helper()
	e := endpoint{inbox: newInbox()}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := ln.Accept(ctx)
	require.NoError(t, err)
	cc.Handler = e.inbox
	c, err := r.Accept(cc)
	require.NoError(t, err)
	e.Conn = c.(*Conn)
	t.Cleanup(func() {
		e.Abort(net.ErrClosed)
		e.Close()
		e.drainInbox()
	})
	return e
}

// enhancedFrame returns a revision 2 frame with the given words.
func enhancedFrame(reply bool, flags byte, ird, ord uint16, pd ...byte) []byte {
	b := []byte("MPA ID Req Frame")
	if reply {
		b[9] = 'p'
	}
	b = append(b, flags, 2, 0, byte(4+len(pd)), byte(ird>>8), byte(ird), byte(ord>>8), byte(ord))
	return append(b, pd...)
}

// plainFrame returns a revision 1 frame.
func plainFrame(reply bool, flags byte, pd ...byte) []byte {
	b := enhancedFrame(reply, flags, 0, 0)[:mpa.HeaderLen]
	b[17], b[18], b[19] = 1, byte(len(pd)>>8), byte(len(pd))
	return append(b, pd...)
}

// TestAcceptReplies checks byte by byte the replies to requests, and the values
// that the upper layer sees (R5044-3-9, R6581-10-1, R6581-10-4).
func TestAcceptReplies(t *testing.T) {
	type golden struct {
		request []byte
		cfg     Config
		reply   []byte
		params  mpa.Params
	}
	pd := wiretest.Bytes(t, "f6 ab 0e 18 01 00 03 03")
	siw := wiretest.Hex(t, "mpa/testdata/request-siw.hex")
	tests := map[string]golden{
		"siw":             {siw, Config{CRC: mpa.CRCAuto}, enhancedFrame(true, 0x10, 0, 128, pd...), mpa.Params{Rev: 2, ORD: 128}},
		"siw, CRC wanted": {siw, Config{}, enhancedFrame(true, 0x50, 0, 128, pd...), mpa.Params{Rev: 2, CRC: true, ORD: 128}},
		"siw with CRC": {
			wiretest.Hex(t, "mpa/testdata/request-siw-crc.hex"),
			Config{CRC: mpa.CRCOff},
			enhancedFrame(true, 0x50, 0, 128, pd...),
			mpa.Params{Rev: 2, CRC: true, ORD: 128},
		},
		"siw, peer-to-peer": {
			wiretest.Hex(t, "mpa/testdata/request-siw-p2p.hex"),
			Config{CRC: mpa.CRCOff},
			enhancedFrame(true, 0x10, 0x8001, 0xc080, pd...), // R6581-9.2-3, R6581-9.2-4
			mpa.Params{Rev: 2, IRD: 1, ORD: 128, PeerToPeer: true, RTR: mpa.RTRWrite | mpa.RTRRead},
		},
		"revision 1":              {plainFrame(false, 0), Config{CRC: mpa.CRCOff}, plainFrame(true, 0, pd...), mpa.Params{Rev: 1, IRD: 128, ORD: 128}}, // R6581-6-4, R6581-10-2
		"revision 1, CRC":         {wiretest.Hex(t, "mpa/testdata/request-rev1.hex"), Config{CRC: mpa.CRCOff}, plainFrame(true, 0x40, pd...), mpa.Params{Rev: 1, CRC: true, IRD: 128, ORD: 128}},
		"reserved bits, R":        {plainFrame(false, 0x3f), Config{CRC: mpa.CRCOff}, plainFrame(true, 0, pd...), mpa.Params{Rev: 1, IRD: 128, ORD: 128}}, // R5044-7.1.1-11, -13, -14
		"most private data":       {plainFrame(false, 0, make([]byte, 512)...), Config{CRC: mpa.CRCOff}, plainFrame(true, 0, pd...), mpa.Params{Rev: 1, IRD: 128, ORD: 128}},
		"revision 2, unenhanced":  {withByte(plainFrame(false, 0), 17, 2), Config{CRC: mpa.CRCOff}, withByte(plainFrame(true, 0, pd...), 17, 2), mpa.Params{Rev: 2, IRD: 128, ORD: 128}},
		"flags without A":         {enhancedFrame(false, 0x10, 0x4004, 0xc004), Config{CRC: mpa.CRCOff}, enhancedFrame(true, 0x10, 4, 4, pd...), mpa.Params{Rev: 2, IRD: 4, ORD: 4}}, // R6581-9.2-9, -10
		"A without a kind of RTR": {enhancedFrame(false, 0x10, 0x8004, 4), Config{CRC: mpa.CRCOff}, enhancedFrame(true, 0x10, 0xc004, 0xc004, pd...), mpa.Params{Rev: 2, IRD: 4, ORD: 4, PeerToPeer: true, RTR: 7}},
	}
	for _, ird := range []uint16{0, 1, 8, 9, 128, 200, 0x3ffe, 0x3fff} {
		for _, ord := range []uint16{0, 1, 9, 10, 200, 0x3ffe, 0x3fff} {
			wantORD, wantIRD := min(ird, 8), min(ord, 9) // R6581-9.1-3, R6581-9.1-5
			params := mpa.Params{Rev: 2, IRD: int(wantIRD), ORD: int(wantORD)}
			if ird == 0x3fff { // R6581-9.1-13
				wantORD, params.ORD = 0x3fff, 8
			}
			if ord == 0x3fff { // R6581-9.1-11
				wantIRD, params.IRD = 0x3fff, 9
			}
			tests[fmt.Sprintf("IRD %d, ORD %d", ird, ord)] = golden{
				enhancedFrame(false, 0x10, ird, ord),
				Config{CRC: mpa.CRCOff, ORD: 8, IRD: 9},
				enhancedFrame(true, 0x10, wantIRD, wantORD, pd...), params,
			}
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			ln, p := rawInitiator(t, tt.cfg)
			p.writeBytes(tt.request)
			e := acceptPeer(t, ln, rdma.ConnConfig{PrivateData: pd})
			assert.Equal(t, tt.reply, p.readBytes(len(tt.reply)))
			assert.Equal(t, tt.params, e.Params())
			peer, err := mpa.ParseRequest(tt.request)
			require.NoError(t, err)
			assert.Equal(t, peer, e.Peer()) // R6581-9.1-1, R5044-7.1.1-17
			assert.Equal(t, peer.PrivateData, e.PrivateData())
			require.NoError(t, p.nc.Close())
			e.inbox.closeError(t)
		})
	}
}

// TestAcceptRefusals checks which requests get no answer and end the connection
// (R5044-7.1.2-2-2, R5044-7.1.2-9-2, R5044-8-1).
func TestAcceptRefusals(t *testing.T) {
	good := wiretest.Hex(t, "mpa/testdata/request-siw.hex")
	for name, tt := range map[string]struct{ request, reply []byte }{
		"revision 0":         {withByte(good, 17, 0), nil}, // R5044-7.1.1-16
		"revision 3":         {withByte(good, 17, 3), nil},
		"wrong key":          {withByte(good, 15, 'f'), nil}, // R5044-7.1.1-2
		"a reply":            {withByte(good, 9, 'p'), nil},  // R5044-7.1.2-5-1
		"513 bytes":          {withByte(withByte(good, 18, 2), 19, 1), nil},
		"65535 bytes":        {withByte(withByte(good, 18, 255), 19, 255), nil},
		"no room for depths": {withByte(good, 19, 3)[:mpa.HeaderLen+3], nil}, // R6581-6-5
		"nothing":            {nil, nil},
		"HTTP":               {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			_, p := rawInitiator(t, Config{})
			p.writeBytes(tt.request)
			if tt.request == nil {
				require.NoError(t, p.nc.(*net.TCPConn).CloseWrite())
			}
			assert.Equal(t, tt.reply, append([]byte(nil), p.readBytes(len(tt.reply))...))
			p.expectEnd() // R5044-8-4-1
		})
	}
}

// TestReject checks that the upper layer may refuse, with private data
// (R5044-7.1.2-2-3, R5044-7.1.2-2-4).
func TestReject(t *testing.T) {
	checkLeaks(t)
	ln, p := rawInitiator(t, Config{CRC: mpa.CRCAuto})
	p.writeBytes(wiretest.Hex(t, "mpa/testdata/request-siw.hex"))
	r, err := ln.Accept(t.Context())
	require.NoError(t, err)
	assert.Equal(t, wiretest.Bytes(t, "f6 ab 0e 18 01 01 03 03"), r.PrivateData())
	require.NoError(t, r.Reject([]byte("full")))
	want := enhancedFrame(true, 0x30, 0, 128, []byte("full")...)
	assert.Equal(t, want, p.readBytes(len(want)))
	p.expectEOF()
}

// TestPrivateDataTooLong checks that private data that does not fit ends the
// connection without a reply.
func TestPrivateDataTooLong(t *testing.T) {
	for pd, fits := range map[int]bool{508: true, 509: false} { // R6581-9-2
		checkLeaks(t)
		ln, p := rawInitiator(t, Config{})
		p.writeBytes(wiretest.Hex(t, "mpa/testdata/request-siw.hex"))
		r, err := ln.Accept(t.Context())
		require.NoError(t, err)
		c, err := r.Accept(rdma.ConnConfig{PrivateData: make([]byte, pd), Handler: newInbox()})
		if fits {
			require.NoError(t, err)
			p.readBytes(mpa.HeaderLen + 512)
			c.Abort(net.ErrClosed)
			require.NoError(t, c.Close())
			continue
		}
		require.Error(t, err)
		p.expectEOF()
	}
}

// TestAcceptPieces checks that the request may arrive byte by byte, and FPDUs
// right behind it. MPA does not read these FPDUs (R5044-7.1-1,
// R5044-7.1.2-2-6), and the DDP endpoint exists when they are parsed
// (R5044-7.1-3).
func TestAcceptPieces(t *testing.T) {
	for _, step := range []int{1, 7, 1000} {
		checkLeaks(t)
		ln, p := rawInitiator(t, Config{CRC: mpa.CRCOff})
		data := append(wiretest.Hex(t, "mpa/testdata/request-siw.hex"), frameFPDU(false, sendSeg(true, 1, 0, []byte("early")))...)
		for b := range slices.Chunk(data, step) {
			p.writeBytes(b)
		}
		e := acceptPeer(t, ln, rdma.ConnConfig{Recvs: 1})
		assert.Equal(t, "early", string(e.inbox.nextMessage(t)))
	}
}
