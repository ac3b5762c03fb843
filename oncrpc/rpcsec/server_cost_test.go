package rpcsec

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestCost checks that a call costs no allocation of this package.
func TestCost(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	k := &serverContext{Context: clearContext{}, principal: gss.Principal{Name: []string{"x"}}, expires: time.Now().Add(time.Hour)}
	require.True(t, r.contexts.add(k, fairshare.Name{}))
	for _, service := range services {
		for _, proc := range []uint32{0, procEcho} {
			seq := uint32(1000 * (10*service + proc))
			var w sliceScratch
			msg := appendWords(7, 0, 2, testProg, testVers, proc)
			msg = appendCredential(msg, credential{proc: procData, seq: seq, service: service, handle: k.handle[:]})
			msg = xdr.AppendOpaque(append(msg, appendWords(6)...), []byte("[MIC]"))
			at := len(msg)
			front, _ := bodyOverhead(clearContext{}, service)
			msg = append(msg, make([]byte, front)...)
			if proc == procEcho {
				msg = append(msg, opaqueArgs([]byte("data"))...)
			}
			body := at + front - 4
			if service != serviceNone {
				msg, _, _ = w.sealBody(clearContext{}, service, seq, msg, at, nil)
				msg = append(msg, zeros[:xdr.Pad(len(msg))]...)
			}
			kept, head := bytes.Clone(msg), make([]byte, 0, 4096)
			rep := oncrpc.Reply{}
			req := oncrpc.Request{Peer: &r.peer}
			n := testing.AllocsPerRun(500, func() {
				seq++
				copy(msg, kept)
				binary.BigEndian.PutUint32(msg[40:], seq)
				if service != serviceNone {
					binary.BigEndian.PutUint32(msg[body:], seq)
				}
				req.Msg, req.MaxReply, req.MaxWhole = msg, 1<<20, 1<<20
				rep.Head, rep.Tail = head[:0], nil
				if !r.Serve(t.Context(), &req, &rep) || binary.BigEndian.Uint32(rep.Head[8:]) != 0 {
					panic("not accepted")
				}
				rep.DropItem()
				rep.Whole = false
			})
			assert.LessOrEqual(t, n, racetest.PoolLosses(8), "service %d, procedure %d", service, proc)
		}
	}
	plain := append(appendWords(7, 0, 2, testProg, testVers, 0, 0, 0, 0, 0), 0)[:40]
	rep := oncrpc.Reply{Head: make([]byte, 0, 100)}
	req := oncrpc.Request{Msg: plain, Peer: &r.peer, MaxReply: 4096}
	assert.LessOrEqual(t, testing.AllocsPerRun(500, func() { rep.Head = rep.Head[:0]; r.Serve(t.Context(), &req, &rep) }), racetest.PoolLosses(2))
}
