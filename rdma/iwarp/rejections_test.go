package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestEarlyResponder checks that FPDUs which a responder sends directly after
// its reply, before it may (RFC 5044, Section 7.1.2, rule 4), are still
// received (R5044-7.1-1, R5044-7.1.2-3-4).
func TestEarlyResponder(t *testing.T) {
	for _, markers := range []bool{false, true} {
		checkLeaks(t)
		in := newInbox()
		p, _, result := rawResponder(t, Config{CRC: mpa.CRCOff, Markers: markers}, rdma.ConnConfig{Handler: in, Recvs: 1})
		p.to.Markers = markers
		p.writeBytes(enhancedFrame(true, 0x10, 1, 1), p.frameFPDU(sendSeg(true, 1, 0, []byte("early"))))
		got := <-result
		require.NoError(t, got.err)
		assert.Equal(t, "early", string(in.nextMessage(t)))
		require.NoError(t, got.closeResult(t))
	}
}

// TestRejections checks rejections in both revisions, with and without private
// data, and that only the FIN follows (R5044-7.1.1-12, R5044-7.1.2-2-3,
// R5044-7.1.2-2-4, R5044-7.1.2-2-5, R5044-7.1.2-6-2).
func TestRejections(t *testing.T) {
	for _, pd := range [][]byte{nil, []byte("full"), make([]byte, 508)} {
		for name, request := range map[string][]byte{
			"revision 1": plainFrame(false, 0),
			"revision 2": enhancedFrame(false, 0x10, 1, 1),
			"Markers":    enhancedFrame(false, 0x90, 1, 1),
		} {
			checkLeaks(t)
			ln, p := rawInitiator(t, Config{CRC: mpa.CRCAuto})
			p.writeBytes(request)
			r, err := ln.Accept(t.Context())
			require.NoError(t, err)
			require.NoError(t, r.Reject(pd))
			head := p.readBytes(mpa.HeaderLen)
			n, err := mpa.ReplyLen(head)
			require.NoError(t, err)
			reply, err := mpa.ParseReply(append(head, p.readBytes(n-mpa.HeaderLen)...))
			require.NoError(t, err)
			assert.True(t, reply.Reject, name)
			assert.Equal(t, request[17], reply.Rev)
			assert.Equal(t, request[16]&0x10 != 0, reply.HasEnhanced)
			assert.Equal(t, string(pd), string(reply.PrivateData))
			p.expectEOF()
		}
	}
}

// TestRejectedUnenhanced checks that an initiator without enhanced mode
// receives a rejection's private data too (R5044-7.1.1-20, R5044-7.1.2-3-3).
func TestRejectedUnenhanced(t *testing.T) {
	checkLeaks(t)
	p, _, result := rawResponder(t, Config{Unenhanced: true}, rdma.ConnConfig{Handler: newInbox()})
	p.writeBytes(plainFrame(true, 0x20, []byte("full")...))
	p.expectEOF()
	var rejected *RejectedError
	require.ErrorAs(t, (<-result).closeResult(t), &rejected)
	assert.Equal(t, "full", string(rejected.Reply.PrivateData))
}
