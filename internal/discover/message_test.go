package discover

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// messages are golden: a change of one requires a new protocol version.
var (
	anAnswer = answerBody{
		Cookie: 0x0102030405060708, RDMA: netip.MustParseAddrPort("192.0.2.1:20049"), TCP: netip.MustParseAddrPort("[::]:2049"),
		Host: "host", Version: "v1", Total: 3, First: 1, Exports: []string{"/a", "/bcd"},
	}
	aCount = &Counters{
		Boot: 7, Sequence: 8, Draining: true, Uptime: time.Second,
		Transports: []Transport{{Name: "rdma", Connections: 1, UnderWay: 2, Accepted: 3, Refused: 4, In: 5, Out: 6}},
		Procs:      []Proc{{Program: "nfs3", Name: "READ", Calls: 9, Errors: 10, In: 11, Out: 12, Took: 13 * time.Microsecond}},
	}
)

// mustParse parses the rest of a message after its header, for comparison.
func mustParse[T any](t *testing.T, parse func(*xdr.Reader) (T, error), b []byte) T {
	t.Helper()
	r := xdr.NewReader(b)
	m, err := parse(&r)
	require.NoError(t, err)
	require.Zero(t, r.Left())
	for n := range b { // truncated at every byte
		r := xdr.NewReader(b[:n])
		_, err := parse(&r)
		assert.ErrorIs(t, err, errForm, n)
	}
	return m
}

func TestGolden(t *testing.T) {
	for name, m := range map[string]interface{ AppendTo([]byte) []byte }{
		"query":      joinedParts{Request{kindQuery, 0x1122334455667788, 0x7fffffff, 0}, queryBody{5}},
		"answer":     joinedParts{replyHeader{kindAnswer, 0x1122334455667788, 7, 1000}, fullAnswer{anAnswer}},
		"register":   joinedParts{Request{kindRegister, 1, 2, 3}, registerBody{4, true}},
		"registered": joinedParts{replyHeader{kindRegistered, 1, 2, 3}, registeredBody{86400}},
		"notice":     joinedParts{replyHeader{kindNotice, 0, 2, 3}, noticeBody{4}},
		"refused":    joinedParts{replyHeader{kindRefused, 1, 2, 3}, refusedBody{refusedCookie, 4}},
		"watch":      joinedParts{Request{kindWatch, 1, 2, 3}, watchBody{4, 4096, rdma.Remote{STag: 5, TO: 6}, countersSize, time.Second}},
		"watching":   joinedParts{replyHeader{kindWatching, 1, 2, 3}, watchingBody{4, 5, 1024, time.Second, 15 * time.Second}},
		"counters":   aCount,
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, wiretest.Hex(t, "testdata/"+name+".hex"), m.AppendTo(nil))
		})
	}
}

type joinedParts struct {
	a, b interface{ AppendTo([]byte) []byte }
}

func (p joinedParts) AppendTo(b []byte) []byte { return p.b.AppendTo(p.a.AppendTo(b)) }

type fullAnswer struct{ a answerBody }

func (a fullAnswer) AppendTo(b []byte) []byte {
	b, _ = a.a.AppendTo(b, maxMessage)
	return b
}

// TestBack checks that encoded messages are decoded to the same values.
func TestBack(t *testing.T) {
	back := anAnswer
	assert.Equal(t, back, mustParse(t, parseAnswer, fullAnswer{anAnswer}.AppendTo(nil)))
	assert.Equal(t, queryBody{5}, mustParse(t, parseQuery, queryBody{5}.AppendTo(nil)))
	assert.Equal(t, registerBody{4, true}, mustParse(t, parseRegister, registerBody{4, true}.AppendTo(nil)))
	assert.Equal(t, registeredBody{9}, mustParse(t, parseRegistered, registeredBody{9}.AppendTo(nil)))
	assert.Equal(t, noticeBody{9}, mustParse(t, parseNotice, noticeBody{9}.AppendTo(nil)))
	assert.Equal(t, refusedBody{refusedFull, 9}, mustParse(t, parseRefused, refusedBody{refusedFull, 9}.AppendTo(nil)))
	w := watchBody{4, 4096, rdma.Remote{STag: 5, TO: 6}, 100, time.Second}
	assert.Equal(t, w, mustParse(t, parseWatch, w.AppendTo(nil)))
	g := watchingBody{4, 5, 1024, time.Second, time.Minute}
	assert.Equal(t, g, mustParse(t, parseWatching, g.AppendTo(nil)))

	b := aCount.AppendTo(nil)
	c, err := parseCounters(b)
	require.NoError(t, err)
	assert.Equal(t, aCount, c)
	for n := range b {
		_, err := parseCounters(b[:n])
		assert.ErrorIs(t, err, errForm, n)
	}
	b[7]++
	_, err = parseCounters(b)
	assert.ErrorIs(t, err, errVersion)
}

// TestStart checks that a message's header is validated.
func TestStart(t *testing.T) {
	q := Request{kindQuery, 1, 2, 3}
	b := q.AppendTo(nil)
	got, _, err := parseRequest(b)
	require.NoError(t, err)
	assert.Equal(t, q, got)
	for n := range b {
		_, _, err := parseRequest(b[:n])
		assert.ErrorIs(t, err, errForm, n)
	}
	b[7]++
	_, _, err = parseRequest(b)
	assert.ErrorIs(t, err, errVersion)
	_, _, err = parseReply(b)
	assert.ErrorIs(t, err, errVersion)
	b[0]++
	_, _, err = parseReply(b)
	assert.ErrorIs(t, err, errForm)
}

// TestLongest checks that the longest counters fit into monitors' memory, and
// names of any length into answers.
func TestLongest(t *testing.T) {
	long := strings.Repeat("x", 1000)
	c := Counters{Transports: make([]Transport, 100), Procs: make([]Proc, 1000)}
	for i := range c.Transports {
		c.Transports[i].Name = long
	}
	for i := range c.Procs {
		c.Procs[i].Program, c.Procs[i].Name = long, long
	}
	b := c.AppendTo(nil)
	assert.LessOrEqual(t, len(b), countersSize)
	back, err := parseCounters(b)
	require.NoError(t, err)
	assert.Len(t, back.Procs, maxProcs)
	assert.Len(t, back.Transports, maxTransports)

	a := answerBody{Host: long, Version: long, Exports: []string{long[:900], "/a", long}}
	b, ok := a.AppendTo(nil, 500)
	assert.True(t, ok)
	r := xdr.NewReader(b)
	got, err := parseAnswer(&r)
	require.NoError(t, err)
	assert.Equal(t, []string{"", "/a"}, got.Exports, "an entry without space, followed by entries that fit")
	assert.Equal(t, long[:maxName], got.Host)
	_, ok = a.AppendTo(nil, 100)
	assert.False(t, ok)
}

// FuzzParse checks that a parsed message survives encoding and decoding, and
// that no value is larger than the message.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"query", "answer", "register", "registered", "notice", "refused", "watch", "watching", "counters"} {
		f.Add(wiretest.Hex(f, "testdata/"+name+".hex"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseCounters(b); err == nil {
			again, err := parseCounters(c.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		if q, body, err := parseRequest(b); err == nil {
			again, _, err := parseRequest(q.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
			for _, parse := range []func(r xdr.Reader){
				func(r xdr.Reader) { _, _ = parseQuery(&r) },
				func(r xdr.Reader) { _, _ = parseRegister(&r) },
				func(r xdr.Reader) { _, _ = parseWatch(&r) },
			} {
				parse(body)
			}
		}
		if p, body, err := parseReply(b); err == nil {
			again, _, err := parseReply(p.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
			r := body
			if a, err := parseAnswer(&r); err == nil {
				require.LessOrEqual(t, 4*len(a.Exports), len(b))
				out, ok := a.AppendTo(nil, 1<<20)
				require.True(t, ok)
				r := xdr.NewReader(out)
				again, err := parseAnswer(&r)
				require.NoError(t, err)
				require.Equal(t, a, again)
			}
			for _, parse := range []func(r xdr.Reader){
				func(r xdr.Reader) { _, _ = parseRegistered(&r) },
				func(r xdr.Reader) { _, _ = parseNotice(&r) },
				func(r xdr.Reader) { _, _ = parseRefused(&r) },
				func(r xdr.Reader) { _, _ = parseWatching(&r) },
			} {
				parse(body)
			}
		}
	})
}
