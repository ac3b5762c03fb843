//go:build interop

package interop

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/pace"
)

// paceOptions requests calls as long as package pace's.
var paceOptions = fmt.Sprintf("rsize=%[1]d,wsize=%[1]d", pace.Request)

// paceKind is the variable that has BenchmarkLinux measure another kind of parts
// than pace.Files. Then no document gets the tables.
const paceKind = "INTEROP_PACE"

// BenchmarkLinux measures Linux's client with several servers, alternately:
// knfsd and nfsrdmad, both in the guest, and nfsrdmad on the host. All keep
// files in memory. It measures all of them b.N times; -benchtime=5x requests
// five rounds. The time per operation is that of a whole round and says
// nothing. A guest that counts its instructions does not count the host's, so
// there only the servers in the guest are measured, by versions 3 and 4.2.
func BenchmarkLinux(b *testing.B) {
	sharedGuest(b)
	ours := insideServer(b)
	kind := cmp.Or(os.Getenv(paceKind), pace.Files)
	var meters []*paceMeter
	if os.Getenv(counted) != "" {
		meters = []*paceMeter{
			{title: "bench-linux, counted", machine: countedMachine, kind: kind, servers: []paceServer{{knfsdName, knfsdSite()}, {oursName, ours}}},
			{title: "bench-linux, counted, version 4.2", machine: countedMachine, kind: kind, servers: []paceServer{{knfsdName, knfsdSite4()}, {oursName, ours.withVersion("4.2")}}},
		}
	} else {
		meters = []*paceMeter{{title: "bench-linux", machine: "emulated", kind: kind, servers: []paceServer{
			{knfsdName, knfsdSite()}, {oursName, ours}, {"nfsrdmad on the host", startDaemon(b, "--no-root-squash").guestSite()},
		}}}
	}
	runMeters(b, meters...)
}

// BenchmarkLinuxLocks measures locks without conflicts, over NFSv4.2, as
// BenchmarkLinux does.
func BenchmarkLinuxLocks(b *testing.B) {
	sharedGuest(b)
	m := &paceMeter{
		title: "bench-linux, locks", machine: "emulated", kind: pace.Locks,
		servers: []paceServer{{knfsdName, knfsdSite4()}, {oursName, insideServer(b).withVersion("4.2")}},
	}
	if os.Getenv(counted) != "" {
		m.title, m.machine = "bench-linux, counted, locks", countedMachine
	} else {
		m.servers = append(m.servers, paceServer{"nfsrdmad on the host", startDaemon(b, "--no-root-squash").guestSite().withVersion("4.2")})
	}
	runMeters(b, m)
}

const (
	oursName       = "nfsrdmad in the guest"
	countedMachine = "emulated, its clock counting instructions"
)

// runMeters makes the rounds of the meters, and prints and documents their tables.
func runMeters(b *testing.B, meters ...*paceMeter) {
	for b.Loop() {
		for _, m := range meters {
			m.measureRound(b)
		}
	}
	for _, m := range meters {
		b.Logf("%s\n%s", m.title, m.markdownTable())
		if name := os.Getenv(paceDoc); name != "" && os.Getenv(paceKind) == "" && len(m.rounds) >= paceRounds {
			m.writeDocument(b, name, strings.TrimSpace(mustInGuest(b, "uname -r")))
		}
	}
}

// insideServer starts nfsrdmad in the guest, on a file system in memory like
// knfsd's, until the benchmark ends.
func insideServer(b *testing.B) guestSite {
	b.Helper()
	const (
		dir  = "/nfsrdmad"
		said = "/tmp/nfsrdmad.log"
	)
	s := guestSite{host: knfsdSite().host, export: "/x", rdma: 20050, tcp: 2050, mountd: 2050}
	require.NoError(b, sharedGuest(b).Push(b.Context(), programPath("nfsrdmad"), "/bin/nfsrdmad"))
	mustInGuest(b, fmt.Sprintf("mkdir -p %[1]s && mount -t tmpfs -o mode=755,size=40%% tmpfs %[1]s", dir))
	b.Cleanup(func() {
		mustInGuest(b, "killall nfsrdmad; while killall -0 nfsrdmad 2>/dev/null; do usleep 10000; done; umount "+dir)
	})
	mustInGuest(b, fmt.Sprintf("nfsrdmad serve --no-root-squash --listen %[1]s:%[2]d --tcp %[1]s:%[3]d --state /tmp/state %[4]s=%[5]s </dev/null >%[6]s 2>&1 & "+
		"for i in $(seq 500); do grep -q ^ready %[6]s && exit; usleep 20000; done; cat %[6]s; exit 1",
		s.host, s.rdma, s.tcp, dir, s.export, said))
	return s
}

// A paceServer is a measured server.
type paceServer struct {
	name string
	site guestSite
}

// A paceMeter gathers the rounds' results, by server and part.
type paceMeter struct {
	title   string // the table's title in the document
	machine string
	kind    string // the kind of Parts
	servers []paceServer
	rounds  [][][]float64
}

// measureRound measures every server once. Another server goes first each time.
func (m *paceMeter) measureRound(b *testing.B) {
	res := make([][]float64, len(m.servers))
	for i := range m.servers {
		i = (i + len(m.rounds)) % len(m.servers)
		fmt.Fprintf(os.Stderr, "%s, round %d: %s\n", m.title, len(m.rounds)+1, m.servers[i].name)
		res[i] = measurePace(b, m.kind, m.servers[i].site)
	}
	m.rounds = append(m.rounds, res)
}

// measurePace returns the rate of each part of package pace on a new mount.
func measurePace(b *testing.B, kind string, s guestSite) []float64 {
	b.Helper()
	s.mountInGuest(b, "/mnt", s.mountOptions("rdma", paceOptions))
	out := mustInGuest(b, "mkdir /mnt/pace && guestwork pace /mnt/pace "+kind+" && rmdir /mnt/pace")
	unmountInGuest(b, "/mnt")
	words := strings.Fields(out)
	parts := pace.Parts(kind)
	require.Len(b, words, len(parts), out)
	var rates []float64
	for i, p := range parts {
		seconds, err := strconv.ParseFloat(words[i], 64)
		require.NoError(b, err)
		rates = append(rates, p.Work/seconds)
	}
	return rates
}
