package report

import (
	"context"
	"fmt"
	"html"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tableCells returns a table's cells as text, by row, without the head.
func tableCells(page, table string) [][]string {
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

// TestLivePageTables checks that the page has the values of status and clients, that a client
// cannot put anything but text into it, and that its policy allows its own style and script.
func TestLivePageTables(t *testing.T) {
	at := time.Now()
	d := &Status{
		Daemon: daemonDoc{Since: at.Add(-time.Minute)},
		Transports: []Transport{
			{Name: "rdma", Memory: []memoryDoc{{"chunks", 2048, 256 << 20}, {"messages", 0, 1 << 20}}},
			{Name: "tcp", Memory: []memoryDoc{{"calls", 1500, 1 << 20}}},
		},
		Connections: []Connection{{Transport: "tcp", Peer: "192.0.2.1:700"}},
		Exports:     []Export{{Path: "/x", Clients: []string{"*(ro)", "192.0.2.0/24(rw)"}}},
		Procedures: []procDoc{
			{Program: "nfs3", Procedure: "GETATTR", Calls: 4, Traffic: newTraffic(500, 3000), Seconds: 0.002, Latency: []latencyDoc{{20e-6, 3}, {1e-3, 1}}, Errors: []ErrorCount{{"NFS3ERR_BADHANDLE", 1}, {"NFS3ERR_STALE", 2}}},
			{Program: "nfs4", Procedure: "NULL", Calls: 1, Latency: []latencyDoc{{0, 1}}},
		},
	}
	holders := &ClientList{Served: true, Total: 1, Clients: []clientDoc{{
		Owner: `<script>alert(1)</script>&"'`, Addresses: []string{"192.0.2.1:700", "192.0.2.2:700"}, Version: "4.2", State: "confirmed", Opens: 1, Locks: 2, Delegations: 3,
	}}}
	var b strings.Builder
	require.NoError(t, liveTemplate().Execute(&b, newLiveView(d, holders, new(liveHeldView), at)))
	page := b.String()
	assert.Equal(t, 1, strings.Count(page, "<script"))
	for _, element := range []string{"style", "script"} {
		assert.Contains(t, contentPolicy(), element+"-src "+sourceHash(page, element))
	}

	var procs, clients, connections, exports [][]string
	for _, p := range d.Procedures {
		var failed []string
		for _, e := range p.Errors {
			failed = append(failed, fmt.Sprint(e.Name, " ", e.Calls))
		}
		procs = append(procs, []string{p.Program + " " + p.Procedure, fmt.Sprint(p.Calls), formatSize(p.BytesIn), formatSize(p.BytesOut), formatDuration(p.meanDuration()), p.percentileBound(50), p.percentileBound(99), strings.Join(failed, ", ")})
	}
	require.NotEmpty(t, procs)
	seen := tableCells(page, "procedures")
	for i := range seen {
		seen[i] = append(append(seen[i][:2:2], seen[i][3:8]...), seen[i][9])
	}
	assert.Equal(t, procs, seen)
	for _, h := range holders.Clients {
		clients = append(clients, []string{h.Owner, strings.Join(h.Addresses, ", "), h.Version, h.State, fmt.Sprint(h.Opens), fmt.Sprint(h.Locks), fmt.Sprint(h.Delegations)})
	}
	seen = tableCells(page, "clients")
	require.Len(t, seen, 1)
	seen[0] = seen[0][:7] // without a time
	assert.Equal(t, clients, seen)
	for _, n := range d.Connections {
		connections = append(connections, []string{n.Peer, n.Transport})
	}
	seen = tableCells(page, "connections")
	require.Len(t, seen, 1)
	seen[0] = seen[0][:2]
	assert.Equal(t, connections, seen)
	for _, e := range d.Exports {
		exports = append(exports, []string{e.Path, strings.Join(e.Clients, " ")})
	}
	seen = tableCells(page, "exports")
	require.Len(t, seen, 1)
	assert.Equal(t, exports, [][]string{{seen[0][0], seen[0][len(seen[0])-1]}})
	memory := tableCells(page, "memory")
	n := 0
	for _, tr := range d.Transports {
		for _, m := range tr.Memory {
			assert.Equal(t, []string{tr.Name, m.Name, formatSize(uint64(m.InUse)), formatSize(uint64(m.Limit)), ""}, memory[n])
			n++
		}
	}
	assert.Len(t, memory, n+1)
}

// TestDNSRebinding checks that only requests at loopback addresses are for names of this host.
func TestDNSRebinding(t *testing.T) {
	r := new(http.Request)
	r.Host = "server.example"
	for ip, want := range map[string]bool{"192.0.2.1": false, "127.0.1.1": true, "::1": true} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(ip)}))
		assert.Equal(t, want, isDNSRebinding(r.WithContext(ctx)), ip)
	}
}

// TestLivePageMany checks that the page stays small with any number of clients.
func TestLivePageMany(t *testing.T) {
	d := &Status{Connections: make([]Connection, 10_000)}
	holders := &ClientList{Total: 5000, Clients: make([]clientDoc, MaxListed)}
	var b strings.Builder
	require.NoError(t, liveTemplate().Execute(&b, newLiveView(d, holders, new(liveHeldView), time.Now())))
	assert.Len(t, tableCells(b.String(), "connections"), maxLive)
	assert.Len(t, tableCells(b.String(), "clients"), maxLive)
	assert.Contains(t, b.String(), fmt.Sprintf("and %d more", 10_000-maxLive))
	assert.Contains(t, b.String(), fmt.Sprintf("and %d more", 5000-maxLive))
}

// TestLiveShape checks the picture of latencies: the class of the most calls has the
// full height, and no class with calls is invisible.
func TestLiveShape(t *testing.T) {
	assert.Nil(t, newLatencyShape(procDoc{}))
	s := newLatencyShape(procDoc{Latency: []latencyDoc{{5e-6, 1}, {20e-6, 1000}, {0, 500}}})
	assert.Equal(t, []latencyBar{{1, 19, 1}, {21, 0, 20}, {181, 10, 10}}, s.Bars)
	assert.Equal(t, 190, s.Width)
	assert.Equal(t, "up to 5 µs: 1, up to 20 µs: 1000, more: 500", s.Words)
}

// TestAttention checks that each thing that needs attention has its words, and that
// harm comes first.
func TestAttention(t *testing.T) {
	at := time.Now()
	assert.Empty(t, listAttention(new(Status), new(ClientList), at))
	d := &Status{
		Daemon: daemonDoc{State: "draining"},
		Exports: []Export{
			{Path: "/ok", Space: &Space{Bytes: 100, AvailableBytes: 10, Responds: true}},
			{Path: "/gone", Unavailable: "no such directory"},
			{Path: "/hung", Space: &Space{Bytes: 100}},
			{Path: "/full", Space: &Space{Bytes: 100, AvailableBytes: 50, Files: 100, AvailableFiles: 1, Responds: true}},
		},
		NFS4:   &nfs4Doc{Failing: true, Grace: 2, GraceLeft: 30, Revoked: 3},
		Grants: &Grants{WaitSeconds: 5, Late: 4},
		Transports: []Transport{{
			Name: "rdma", WaitingCalls: 5, Memory: []memoryDoc{{"chunks", 95, 100}, {"messages", 10, 100}, {"counters", 0, 0}}, Connections: ConnectionCounts{Refused: 6, Stalled: 7},
			RDMA: &deviceDoc{TerminatesSent: []terminateDoc{{Name: "bad STag", Count: 8}}, TerminatesReceived: []terminateDoc{{Name: "bad CRC", Count: 9}}},
		}},
		Procedures:  []procDoc{{Program: "nfs3", Procedure: "WRITE", Errors: []ErrorCount{{"NFS3ERR_NOSPC", 10}, {"NFS3ERR_ACCES", 99}}}, {Program: "nfs4", Procedure: "READ", Errors: []ErrorCount{{"NFS4ERR_IO", 11}}}},
		Operations:  []operationDoc{{Operation: "READ", Errors: []operationErrorDoc{{"NFS4ERR_IO", 11}}}},
		ReplayCache: replayDoc{Forgotten: 12},
		TLS:         &tlsDoc{Certificate: "/c", Ends: at.Add(25 * time.Hour)},
	}
	holders := &ClientList{Clients: []clientDoc{{State: "courtesy"}, {State: "confirmed"}}}
	want := []string{
		"/gone is unavailable, and its clients wait: no such directory", "file system of /hung does not respond", "list of clients in the state directory", "5 calls over rdma wait", "chunks over rdma is nearly used up: 95 of 100", "6 connections over rdma were rejected",
		"10 calls of nfs3 WRITE failed with NFS3ERR_NOSPC: the file system is full", "11 operations READ failed with NFS4ERR_IO: the disk",
		"completes its calls", "/full is nearly full: 50 of 100 are free, and 1 of 100 inodes", "2 clients may reclaim", "3 NFSv4 delegations", "Changes wait for at most 5 s", "4 recalled", "7 connections over rdma were closed",
		"8 connections were closed with a Terminate from this server: bad STag", "9 connections were closed with a Terminate from a client: bad CRC",
		"12 cached replies", "/c expires in 1 d 1 h", "1 clients have not renewed their lease",
	}
	seen := listAttention(d, holders, at)
	require.Len(t, seen, len(want))
	for i, n := range seen {
		assert.Contains(t, n.Text, want[i])
		assert.Equal(t, i < 8, n.Bad, n.Text)
	}
	d.TLS.Ends = at.Add(-time.Second)
	assert.True(t, listAttention(d, holders, at)[8].Bad)
}
