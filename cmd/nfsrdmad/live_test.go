package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// cells returns the text of a table's cells by row, without the head.
func cells(page, table string) [][]string {
	_, body, _ := strings.Cut(page, `<table id="`+table+`">`)
	body, _, _ = strings.Cut(body, "</table>")
	var rows [][]string
	for _, row := range regexp.MustCompile(`(?s)<tr.*?</tr>`).FindAllString(body, -1) {
		var text []string
		for _, cell := range regexp.MustCompile(`(?s)<td[^>]*>(.*?)</td>`).FindAllStringSubmatch(row, -1) {
			plain := regexp.MustCompile(`(?s)<svg.*</svg>|<[^>]*>`).ReplaceAllString(cell[1], "")
			text = append(text, html.UnescapeString(strings.TrimSpace(plain)))
		}
		if len(text) > 0 {
			rows = append(rows, text)
		}
	}
	return rows
}

// TestLivePage checks that the page has the values of status and clients, and that a
// client cannot put anything but text into it.
func TestLivePage(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	s := serve(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--control", control, "--vers", "3,4.2", t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.addr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	accepted(t, tcpCall(t, c, call(8, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, (&nfs3.HandleArgs{Object: nfs3.FH("nothing")}).AppendTo(nil))), 8, 0)
	const hostile = `<script>alert(1)</script>&"'`
	compound(t, c, 1, nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(hostile)}, new(nfs4.ExchangeIDRes))

	resp, err := http.Get("http://" + s.addr(t, "metrics") + "/")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	page := string(text)
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, 1, strings.Count(page, "<script"))
	for _, element := range []string{"style", "script"} {
		assert.Contains(t, resp.Header.Get("Content-Security-Policy"), element+"-src "+hashed(page, element))
	}

	d := status(t, control)
	_, out, _ := command(t, "clients", "--json", "--control", control)
	var holders clientsDoc
	require.NoError(t, json.Unmarshal([]byte(out), &holders))
	var procs, clients, connections, exports [][]string
	for _, p := range d.Procedures {
		var failed []string
		for _, e := range p.Errors {
			failed = append(failed, fmt.Sprint(e.Name, " ", e.Calls))
		}
		procs = append(procs, []string{p.Program + " " + p.Procedure, fmt.Sprint(p.Calls), size(p.BytesIn), size(p.BytesOut), short(p.mean()), p.below(50), p.below(99), strings.Join(failed, ", ")})
	}
	require.NotEmpty(t, procs)
	seen := cells(page, "procedures")
	for i := range seen {
		seen[i] = append(append(seen[i][:2:2], seen[i][3:8]...), seen[i][9])
	}
	assert.Equal(t, procs, seen)
	for _, h := range holders.Clients {
		clients = append(clients, []string{h.Owner, strings.Join(h.Addresses, ", "), h.Version, h.State, fmt.Sprint(h.Opens), fmt.Sprint(h.Locks), fmt.Sprint(h.Delegations)})
	}
	seen = cells(page, "clients")
	require.Len(t, seen, 1)
	seen[0] = seen[0][:7] // without a time
	assert.Equal(t, clients, seen)
	for _, n := range d.Connections {
		connections = append(connections, []string{n.Peer, n.Transport})
	}
	seen = cells(page, "connections")
	require.Len(t, seen, 1)
	seen[0] = seen[0][:2]
	assert.Equal(t, connections, seen)
	for _, e := range d.Exports {
		exports = append(exports, []string{e.Path, strings.Join(e.Clients, " ")})
	}
	assert.Equal(t, exports, cells(page, "exports"))
	memory := cells(page, "memory")
	n := 0
	for _, tr := range d.Transports {
		for _, m := range tr.Memory {
			assert.Equal(t, []string{tr.Name, m.Name, size(uint64(m.InUse)), size(uint64(m.Limit)), ""}, memory[n])
			n++
		}
	}
	assert.Len(t, memory, n+1)

	resp, err = http.Post("http://"+s.addr(t, "metrics")+"/", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// TestLivePageRebound checks that a page at a loopback address is not for names of others,
// which a browser may have been led to.
func TestLivePageRebound(t *testing.T) {
	s := serve(t, "--listen", "127.0.0.1:0", "--tcp", "", "--metrics", "127.0.0.1:0", t.TempDir()+"=/x")
	addr := s.addr(t, "metrics")
	defer http.DefaultClient.CloseIdleConnections()
	own, err := os.Hostname()
	require.NoError(t, err)
	for host, want := range map[string]int{
		addr: http.StatusOK, "localhost:9849": http.StatusOK, "LOCALHOST": http.StatusOK, "[::1]:9849": http.StatusOK, own + ":9849": http.StatusOK,
		"evil.example:9849": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden, "notlocalhost": http.StatusForbidden,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
		require.NoError(t, err)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, want, resp.StatusCode, host)
		assert.Equal(t, want == http.StatusOK, strings.Contains(string(text), "/x"), host)
	}
	r := new(http.Request)
	r.Host = "server.example"
	for ip, want := range map[string]bool{"192.0.2.1": false, "127.0.1.1": true, "::1": true} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(ip)}))
		assert.Equal(t, want, rebound(r.WithContext(ctx)), ip)
	}
}

// TestLivePageMany checks that the page stays small with any number of clients.
func TestLivePageMany(t *testing.T) {
	d := &statusDoc{Connections: make([]connDoc, 10_000)}
	holders := &clientsDoc{Total: 5000, Clients: make([]clientDoc, maxListed)}
	var b strings.Builder
	require.NoError(t, live().Execute(&b, newView(d, holders, time.Now())))
	assert.Len(t, cells(b.String(), "connections"), maxLive)
	assert.Len(t, cells(b.String(), "clients"), maxLive)
	assert.Contains(t, b.String(), fmt.Sprintf("and %d more", 10_000-maxLive))
	assert.Contains(t, b.String(), fmt.Sprintf("and %d more", 5000-maxLive))
}

// TestLiveShape checks the picture of latencies: the class of the most calls has the
// full height, and no class with calls is invisible.
func TestLiveShape(t *testing.T) {
	assert.Nil(t, shapeOf(procDoc{}))
	s := shapeOf(procDoc{Latency: []latencyDoc{{5e-6, 1}, {20e-6, 1000}, {0, 500}}})
	assert.Equal(t, []bar{{1, 19, 1}, {21, 0, 20}, {181, 10, 10}}, s.Bars)
	assert.Equal(t, 190, s.Width)
	assert.Equal(t, "up to 5 us: 1, up to 20 us: 1000, more: 500", s.Words)
}

// TestAttention checks that each thing that needs attention has its words, and that
// harm comes first.
func TestAttention(t *testing.T) {
	at := time.Now()
	assert.Empty(t, attention(new(statusDoc), new(clientsDoc), at))
	d := &statusDoc{
		Daemon: daemonDoc{State: "draining"},
		NFS4:   &nfs4Doc{Failing: true, Grace: 2, GraceLeft: 30, Revoked: 3},
		Grants: &grantsDoc{WaitSeconds: 5, Late: 4},
		Transports: []transportDoc{{
			Name: "rdma", WaitingCalls: 5, Memory: []memoryDoc{{"chunks", 95, 100}, {"messages", 10, 100}, {"counters", 0, 0}}, Connections: connectionsDoc{Refused: 6, Stalled: 7},
			RDMA: &deviceDoc{TerminatesSent: []terminateDoc{{Name: "bad STag", Count: 8}}, TerminatesReceived: []terminateDoc{{Name: "bad CRC", Count: 9}}},
		}},
		Procedures:  []procDoc{{Program: "nfs3", Procedure: "WRITE", Errors: []errorDoc{{"NFS3ERR_NOSPC", 10}, {"NFS3ERR_ACCES", 99}}}, {Program: "nfs4", Procedure: "READ", Errors: []errorDoc{{"NFS4ERR_IO", 11}}}},
		Operations:  []operationDoc{{Operation: "READ", Errors: []operationErrorDoc{{"NFS4ERR_IO", 11}}}},
		ReplayCache: replayDoc{Forgotten: 12},
		TLS:         &tlsDoc{Certificate: "/c", Ends: at.Add(25 * time.Hour)},
	}
	holders := &clientsDoc{Clients: []clientDoc{{State: "courtesy"}, {State: "confirmed"}}}
	want := []string{
		"list of clients in the state directory", "5 calls over rdma wait", "chunks over rdma is nearly used up: 95 of 100", "6 connections over rdma were refused",
		"10 calls of nfs3 WRITE failed with NFS3ERR_NOSPC: the file system is full", "11 operations READ failed with NFS4ERR_IO: the disk",
		"finishes its calls", "2 clients may reclaim", "3 delegations", "Changes wait for 5 s", "4 recalled", "7 connections over rdma were cut",
		"8 connections were ended with a Terminate of this server: bad STag", "9 connections were ended with a Terminate of a client: bad CRC",
		"12 replies", "/c ends in 1 d 1 h", "1 clients have been silent",
	}
	seen := attention(d, holders, at)
	require.Len(t, seen, len(want))
	for i, n := range seen {
		assert.Contains(t, n.Text, want[i])
		assert.Equal(t, i < 6, n.Bad, n.Text)
	}
	d.TLS.Ends = at.Add(-time.Second)
	assert.True(t, attention(d, holders, at)[6].Bad)
}
