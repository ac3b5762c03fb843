package rpcrdma

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
)

// itemProgram is a program whose procedure 1 takes one item that may come in a chunk,
// and whose procedure 2 takes two such items with another between them that may
// not.
type itemProgram struct{ served int }

func (p *itemProgram) ServeRPC(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
	c.Args.Item(1 << 20)
	if c.Proc == 2 {
		c.Args.Opaque(1 << 20)
		c.Args.Item(1 << 20)
	}
	err := c.Args.Done()
	if err == nil {
		p.served++
	}
	return err
}

// TestGarbageArgs checks that a call with a sound header is not served, and
// gets an RPC answer, if its arguments do not match the header, or an item came
// in a chunk that may not (R8166-4.5.2-2, R8166-6.1-2).
func TestGarbageArgs(t *testing.T) {
	const success, garbage = 0, 4 // accept_stat
	const none = "00000000 00000000"
	type at struct{ pos, n int }
	for _, tt := range []struct {
		name string
		proc uint32
		auth string // credential and verifier
		args string // inline
		in   []at   // chunks
		want uint32
	}{
		{"as it should be", 1, none + none, "00000064", []at{{44, 100}}, success},
		{"chunk shorter than the count", 1, none + none, "00000065", []at{{44, 100}}, garbage},
		{"chunk longer than the count", 1, none + none, "00000060", []at{{44, 100}}, garbage},
		{"chunk with more than padding", 1, none + none, "00000061", []at{{44, 101}}, garbage},
		{"empty chunk", 1, none + none, "00000060", []at{{44, 0}}, garbage},
		{"no data, in a chunk", 1, none + none, "00000000", []at{{44, 0}}, success},
		{"chunk before the count", 1, none + none, "00000064", []at{{40, 100}}, garbage},
		{"R8166-3.4.4.4-2 padding left behind", 1, none + none, "00000061 00000000", []at{{44, 97}}, garbage},
		{"R8166-8.2.2-1 chunk in the credential", 1, "00000001 00000008" + none + none, "00000064", []at{{40, 100}}, garbage},
		{"chunk for a procedure without arguments", 0, none + none, "", []at{{40, 4}}, garbage},
		{"chunks for a procedure without arguments", 0, none + none, "", []at{{40, 4}, {44, 4}}, garbage},

		{"two items", 2, none + none, "00000005 00000000 00000003", []at{{44, 5}, {60, 3}}, success},
		{"two items, one with its padding", 2, none + none, "00000005 00000000 00000003", []at{{44, 8}, {60, 3}}, success},
		{"two items, one empty", 2, none + none, "00000000 00000000 00000003", []at{{44, 0}, {52, 3}}, success},
		{"R8166-3.4.4.4-1 both items in a chunk", 2, none + none, "00000005", []at{{44, 8 + 4 + 4 + 4}}, garbage},
		{"R8166-3.4.2-1 an ineligible item", 2, none + none, "00000005 00000008 00000003", []at{{44, 5}, {56, 8}, {68, 3}}, garbage},
		{"R8166-3.4.2-1 an ineligible item, the other inline", 2, none + none, "00000004 61626364 00000008 00000003", []at{{52, 8}, {64, 3}}, garbage},
		{"the second shorter", 2, none + none, "00000005 00000000 00000004", []at{{44, 5}, {60, 3}}, garbage},
		{"the first shorter", 2, none + none, "00000005 00000000 00000004", []at{{44, 4}, {56, 4}}, garbage},
		{"a chunk too many", 2, none + none, "00000005 00000000 00000003", []at{{44, 5}, {60, 3}, {64, 4}}, garbage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, mux := new(itemProgram), new(oncrpc.Mux)
			mux.Register(100003, 3, program)
			withServer(t, &Server{Handler: mux}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				body := rpcCall(testXID, "")[:24]
				binary.BigEndian.PutUint32(body[20:], tt.proc)
				body = append(body, wiretest.Bytes(t, tt.auth+tt.args)...)
				for _, long := range []bool{false, true} {
					var l chunks.Lists
					for _, c := range tt.in {
						l.Reads = append(l.Reads, q.readSegments(uint32(c.pos), patternBytes(c.n))...)
					}
					if long { // R8166-3.5.3-3: the message can come in a chunk as well
						l.Reads = append(l.Reads, q.readSegments(0, body)...)
						q.sendCall(newNoMsg(l), nil)
					} else {
						q.sendCall(newMsg(l), body)
					}
					a := q.onlyAnswer()
					assert.Equal(t, wire.Msg, a.Proc)
					assert.Equal(t, tt.want, binary.BigEndian.Uint32(a.body[20:]))
				}
				if tt.want == garbage {
					assert.Zero(t, program.served)
				}
			})
		})
	}
}
