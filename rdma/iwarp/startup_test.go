package iwarp

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestRTRComesByItself checks that in the peer-to-peer model the responder may
// send first: the initiator sends its RTR indication unasked.
func TestRTRComesByItself(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{initiator: Config{PeerToPeer: true}})
	require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}}))
	require.Equal(t, "hello", string(a.inbox.nextMessage(t)))
}

// rawResponder starts an initiator and returns the raw peer that has received
// its request, the parsed request, and the channel for the initiator's result.
func rawResponder(t testing.TB, cfg Config, cc rdma.ConnConfig) (*rawPeer, mpa.Frame, <-chan dialResult) {
	t.Helper()
	a, b := ncPair(t, false)
	t.Cleanup(func() { b.Close() })
	result := make(chan dialResult, 1)
	go func() {
		c, err := deviceWith(cfg).Client(context.Background(), a, cc)
		result <- dialResult{c, err}
	}()
	p := &rawPeer{t: t, nc: b}
	head := p.readBytes(mpa.HeaderLen)
	n, err := mpa.RequestLen(head)
	require.NoError(t, err)
	req, err := mpa.ParseRequest(append(head, p.readBytes(n-mpa.HeaderLen)...))
	require.NoError(t, err)
	return p, req, result
}

type dialResult struct {
	c   *Conn
	err error
}

// TestRefusedReplyHasCRC checks that an initiator which cannot accept the reply
// sends a Terminate, with a valid CRC if CRCs are on.
func TestRefusedReplyHasCRC(t *testing.T) {
	for _, crc := range []bool{false, true} {
		checkLeaks(t)
		p, req, result := rawResponder(t, Config{CRC: mpa.CRCOff, IRD: 4}, rdma.ConnConfig{Handler: newInbox()})
		require.False(t, req.CRC)
		p.crc = crc
		p.writeBytes(mpa.Frame{Reply: true, Rev: mpa.Rev2, CRC: crc, HasEnhanced: true, Enhanced: mpa.Enhanced{ORD: 5}}.AppendTo(nil))
		require.Equal(t, mpa.ErrIRD, mpa.Error(p.readTerminate().Cause.Code))
		require.ErrorIs(t, (<-result).err, mpa.ErrIRD)
	}
}

// closeResult closes the connection that the start-up made, or returns the start-up's
// error.
func (d dialResult) closeResult(t testing.TB) error {
	t.Helper()
	if d.err != nil {
		require.Nil(t, d.c)
		return d.err
	}
	d.c.Abort(net.ErrClosed)
	require.NoError(t, d.c.Close())
	return nil
}

// TestRequests checks every byte in the requests for several configurations
// (R5044-4.4-2, R5044-7.1.1-1, R5044-7.1.2-1-2, R6581-5-1, R6581-9.2-1,
// R6581-10-3).
func TestRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want []byte
	}{
		"default":           {Config{}, enhancedFrame(false, 0x50, 128, 128)},
		"no CRC":            {Config{CRC: mpa.CRCOff}, enhancedFrame(false, 0x10, 128, 128)},
		"depths":            {Config{IRD: 1, ORD: 2}, enhancedFrame(false, 0x50, 1, 2)},
		"depths too large":  {Config{IRD: 200, ORD: 0xffff}, enhancedFrame(false, 0x50, 128, 128)},
		"private data":      {Config{}, enhancedFrame(false, 0x50, 128, 128, []byte("hello")...)},
		"peer-to-peer":      {Config{PeerToPeer: true, IRD: 3}, enhancedFrame(false, 0x50, 0xc003, 0xc080)}, // R6581-9.2-1
		"unenhanced":        {Config{Unenhanced: true}, plainFrame(false, 0x40)},                            // R6581-6-3
		"unenhanced, large": {Config{Unenhanced: true, PeerToPeer: true}, plainFrame(false, 0x40, make([]byte, 512)...)},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			pd := tt.want[mpa.HeaderLen:]
			if tt.want[17] == 2 {
				pd = pd[mpa.EnhancedLen:]
			}
			p, req, result := rawResponder(t, tt.cfg, rdma.ConnConfig{Handler: newInbox(), PrivateData: pd})
			assert.Equal(t, tt.want, req.AppendTo(nil)) // R5044-7.1.1-1, -13, -15, -18
			p.nc.Close()
			require.ErrorIs(t, (<-result).closeResult(t), io.EOF)
		})
	}
}

// TestReplies checks how the initiator handles replies (R5044-3-9,
// R5044-7.1.2-3-1, R6581-8-1, R6581-9.1-1, R6581-9.1-7).
func TestReplies(t *testing.T) {
	siw := wiretest.Hex(t, "mpa/testdata/reply-siw.hex")
	off := Config{CRC: mpa.CRCOff, IRD: 8, ORD: 9}
	params := func(ird, ord int) mpa.Params { return mpa.Params{Rev: 2, IRD: ird, ORD: ord} }
	for name, tt := range map[string]struct {
		cfg    Config
		reply  []byte
		params mpa.Params
		err    error
		answer error // a Terminate
	}{
		"siw":                     {Config{CRC: mpa.CRCOff}, withByte(siw, 21, 5), params(128, 5), nil, nil},
		"CRC of ours":             {Config{}, enhancedFrame(true, 0x10, 1, 1), mpa.Params{Rev: 2, CRC: true, IRD: 128, ORD: 1}, nil, nil}, // R5044-7.1.1-8
		"CRC of theirs":           {off, enhancedFrame(true, 0x50, 1, 1), mpa.Params{Rev: 2, CRC: true, IRD: 8, ORD: 1}, nil, nil},        // R5044-4.4-6
		"no CRC":                  {off, enhancedFrame(true, 0x10, 1, 1), params(8, 1), nil, nil},                                         // R5044-4.4-3
		"less than offered":       {off, enhancedFrame(true, 0x10, 3, 4), params(8, 3), nil, nil},                                         // R6581-9.1-8
		"more than offered":       {off, enhancedFrame(true, 0x10, 20, 8), params(8, 9), nil, nil},
		"no Reads":                {off, enhancedFrame(true, 0x10, 0, 0), params(8, 0), nil, nil},
		"IRD not negotiated":      {off, enhancedFrame(true, 0x10, 0x3fff, 8), params(8, 9), nil, nil}, // R6581-9.1-12
		"ORD not negotiated":      {off, enhancedFrame(true, 0x10, 9, 0x3fff), params(8, 9), nil, nil}, // R6581-9.1-14
		"flags unasked":           {off, enhancedFrame(true, 0x10, 0xc009, 0xc008), params(8, 9), nil, nil},
		"reserved bits":           {off, enhancedFrame(true, 0x1f, 9, 8), params(8, 9), nil, nil},
		"revision 1":              {Config{CRC: mpa.CRCOff, Unenhanced: true}, plainFrame(true, 0), mpa.Params{Rev: 1, IRD: 128, ORD: 128}, nil, nil},
		"too many Reads":          {off, enhancedFrame(true, 0x10, 9, 9), mpa.Params{}, mpa.ErrIRD, mpa.ErrIRD}, // R6581-9.1-9
		"far too many":            {off, enhancedFrame(true, 0x10, 9, 0x3ffe), mpa.Params{}, mpa.ErrIRD, mpa.ErrIRD},
		"Markers":                 {off, enhancedFrame(true, 0x90, 1, 1), mpa.Params{Rev: 2, SendMarkers: true, IRD: 8, ORD: 1}, nil, nil},
		"unenhanced":              {off, plainFrame(true, 0), mpa.Params{}, mpa.ErrEnhanced, nil},
		"enhanced, to revision 1": {Config{CRC: mpa.CRCOff, Unenhanced: true}, enhancedFrame(true, 0x10, 1, 1), mpa.Params{}, mpa.ErrEnhanced, nil},
		"a request":               {off, withByte(siw, 9, 'q'), mpa.Params{}, mpa.ErrInitiator, nil}, // R5044-7.1.2-8-1
		"wrong key":               {off, withByte(siw, 0, 'm'), mpa.Params{}, mpa.ErrKey, nil},       // R5044-7.1.1-4
		"revision 0":              {off, withByte(siw, 17, 0), mpa.Params{}, mpa.ErrRevision, nil},
		"revision 3":              {off, withByte(siw, 17, 3), mpa.Params{}, mpa.ErrRevision, nil},
		"513 bytes":               {off, withByte(withByte(siw, 18, 2), 19, 1), mpa.Params{}, mpa.ErrPrivateData, nil}, // R5044-7.1.1-19
		"no room for depths":      {off, withByte(siw, 19, 3), mpa.Params{}, mpa.ErrPrivateData, nil},
		"cut short":               {off, siw[:len(siw)-1], mpa.Params{}, io.ErrUnexpectedEOF, nil},
		"nothing":                 {off, nil, mpa.Params{}, io.EOF, nil},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			p, _, result := rawResponder(t, tt.cfg, rdma.ConnConfig{Handler: newInbox()})
			p.writeBytes(tt.reply)
			if tt.answer != nil {
				term := p.readTerminate()
				assert.ErrorIs(t, term.Cause, tt.answer)
				assert.Nil(t, term.DDPHeader) // R5040-4.8-23
			} else if tt.err != nil {
				_ = p.nc.(*net.TCPConn).CloseWrite()
				p.expectEnd() // R5044-7.1.2-3-2
			}
			got := <-result
			if tt.err == nil {
				require.NoError(t, got.err)
				assert.Equal(t, tt.params, got.c.Params())
				reply, err := mpa.ParseReply(tt.reply)
				require.NoError(t, err)
				assert.Equal(t, reply, got.c.Peer()) // R6581-9.1-10
			}
			require.ErrorIs(t, got.closeResult(t), tt.err)
		})
	}
}

// TestRejected checks that a rejection carries the responder's private data and
// depths.
func TestRejected(t *testing.T) {
	checkLeaks(t)
	p, _, result := rawResponder(t, Config{}, rdma.ConnConfig{Handler: newInbox()})
	p.writeBytes(enhancedFrame(true, 0x30, 3, 4, []byte("full")...))
	p.expectEOF()
	var rejected *RejectedError
	require.ErrorAs(t, (<-result).closeResult(t), &rejected)
	assert.Equal(t, "full", string(rejected.Reply.PrivateData))
	assert.Equal(t, mpa.Enhanced{IRD: 3, ORD: 4}, rejected.Reply.Enhanced) // R6581-9.1-10
}

// TestRequestTooLong checks that Client fails and sends nothing if the private
// data is too long.
func TestRequestTooLong(t *testing.T) {
	checkLeaks(t)
	a, b := ncPair(t, false)
	defer b.Close()
	_, err := testDevice.Client(t.Context(), a, rdma.ConnConfig{PrivateData: make([]byte, 509), Handler: newInbox()})
	require.Error(t, err)
	(&rawPeer{t: t, nc: b}).expectEOF()
}

// TestReplyPieces checks that the reply may arrive byte by byte.
func TestReplyPieces(t *testing.T) {
	checkLeaks(t)
	p, _, result := rawResponder(t, Config{CRC: mpa.CRCOff}, rdma.ConnConfig{Handler: newInbox()})
	for b := range slices.Chunk(wiretest.Hex(t, "mpa/testdata/reply-siw.hex"), 1) {
		p.writeBytes(b)
	}
	got := <-result
	require.NoError(t, got.err)
	assert.Equal(t, wiretest.Bytes(t, "f6 ab 0e 18 01 00 03 03"), got.c.PrivateData())
	require.NoError(t, got.closeResult(t))
}
