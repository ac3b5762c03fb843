//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A delegatedWork is work that opens the same files again and again: a script
// that prepares it, and a script that is measured.
type delegatedWork struct{ name, prepare, again string }

// delegatedWorks returns works with so many hundred files. They need programs of
// the host: see everyday.
func delegatedWorks(hundreds int) []delegatedWork {
	make := func(dirs int) string {
		return fmt.Sprintf("for d in $(seq %d); do mkdir $d; for n in $(seq 100); do echo $d $n >$d/$n; done; done", dirs)
	}
	return []delegatedWork{
		{
			fmt.Sprintf("open, read and close of %d files", 100*hundreds),
			"mkdir files; cd files; " + make(hundreds),
			"for d in files/*; do cat $d/* >/dev/null; done",
		},
		{
			fmt.Sprintf("git status and git grep of %d files", 200*hundreds),
			"git init -q tree; cd tree; " + make(2*hundreds) + "; git add .; git commit -q -m one",
			"cd tree; git status --porcelain; git grep -q nothing || :",
		},
		compilation,
		{
			fmt.Sprintf("unpacking an archive with %d files", 100*min(hundreds, maxArchive)),
			"mkdir archived; cd archived; " + make(min(hundreds, maxArchive)) + "; tar cf ../archive.tar .",
			"rm -rf unpacked; mkdir unpacked; cd unpacked; tar xf ../archive.tar",
		},
	}
}

var compilation = delegatedWork{
	"compilation of 10 files with 50 headers",
	"mkdir program; cd program; for h in $(seq 50); do echo \"#define H$h $h\" >$h.h; echo \"#include \\\"$h.h\\\"\" >>all.h; done; " +
		"for n in $(seq 10); do printf '#include \"all.h\"\\nint f%d(void) { return H1; }\\n' $n >f$n.c; done; printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n%%.o: %%.c\\n\\tgcc -c -o /tmp/$@ $<\\n' >Makefile",
	"cd program; make -s -j2",
}

// maxArchive bounds the archive, in hundreds of files: the slow guest creates each in several
// calls, three times.
const maxArchive = 10

// delegatedLimit bounds one work. The guest is slow.
const delegatedLimit = 15 * time.Minute

// author names the author of commits.
const author = "set -e; export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org\n"

// TestDelegatedCalls4 measures how many calls Linux makes over NFSv4.2 over RDMA for work
// that opens the same files again and again, and for unpacking an archive: with delegations
// for reading, also for writing, and without, and on knfsd.
// Linux returns a delegation that it has not used between two renewals of its lease, so
// the lease must be as long as the slow guest takes to open all files. INTEROP_FILES is
// the number of files, in hundreds. If the host does not let nfsrdmad have a descriptor
// for each, the export is exclusive, which needs none.
func TestDelegatedCalls4(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	sharedGuest(t)
	dir := reachableDir(t)
	exports := filepath.Join(t.TempDir(), "exports")
	hundreds := 4
	if s := os.Getenv("INTEROP_FILES"); s != "" {
		var err error
		hundreds, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	options := "rw,insecure,no_root_squash"
	if !enoughLeases(t, 300*hundreds+100) {
		options += ",exclusive"
	}
	t.Logf("the export is %s", options)
	require.NoError(t, os.WriteFile(exports, []byte("/usr *(ro,insecure,no_root_squash)\n"+dir+" *("+options+")\n"), 0o644))
	lease := max(40, 10*hundreds)
	letWait(t, lease+5)
	works := delegatedWorks(hundreds)
	calls := make(map[string][]int)
	for _, how := range []string{"read", "all", "off", "knfsd"} {
		flag := how
		if how == "knfsd" {
			flag = "off"
		}
		d := serveExports(t, dir, exports, "--delegations", flag, "--nfs4-lease", fmt.Sprintf("%ds", lease))
		s := d.guestSite().withVersion("4.2")
		mustInGuest(t, fmt.Sprintf(everyday, s.host, s.mountOptions("rdma")))
		s.export = dir
		s.mountInGuest(t, "/everyday/work", s.mountOptions("rdma"))
		mustInGuest(t, fmt.Sprintf("echo %d >/sys/module/nfsv4/parameters/delegation_watermark", 1000*hundreds))
		inside := func(script string) {
			out, status := tryFor(t, delegatedLimit, "cat >/everyday/tmp/script <<'END'\n"+author+"cd /work\n"+script+"\nEND\nchroot /everyday /bin/sh /tmp/script")
			require.Zero(t, status, "%s", outputTail(out))
		}
		prepare := func(script string) { onHost(t, dir, author+script) }
		if how == "knfsd" {
			mustInGuest(t, fmt.Sprintf("knfsd stop; LEASE=%d knfsd start", lease))
			t.Cleanup(func() { mustInGuest(t, "knfsd stop; knfsd start") })
			mustInGuest(t, "umount /everyday/work; mkdir -p /export/work; mount -o bind /export/work /everyday/work")
			prepare = inside
		}
		for _, w := range works {
			prepare("(" + w.prepare + ")")
		}
		if how == "knfsd" {
			k := knfsdSite4()
			mustInGuest(t, fmt.Sprintf("umount /everyday/work; mount.nfs %s:/work /everyday/work -o %s", k.host, k.mountOptions("rdma")))
		}
		for _, w := range works {
			inside(w.again)
			if how != "off" { // the second look at a file is the one that gets a delegation
				inside(w.again)
			}
			mustInGuest(t, "sleep 5") // attributes of young files are believed for 3 s
			before := callsOf(t, "/everyday/work")
			start := time.Now()
			inside(w.again)
			seconds := time.Since(start).Seconds()
			after := callsOf(t, "/everyday/work")
			n := sumCalls(after) - sumCalls(before)
			calls[w.name] = append(calls[w.name], n)
			t.Logf("%s, %s: %d calls, %.2f s; %s", w.name, how, n, seconds, mostFrequent(before, after))
		}
		out, status := tryFor(t, delegatedLimit, "set -e; cd /everyday; umount dev proc work usr; rm -rf /export/work") // returns all delegations
		require.Zero(t, status, "%s", outputTail(out))
		onHost(t, dir, "rm -rf files tree program archived archive.tar unpacked")
		d.stopGracefully()
	}
	for _, w := range works[:3] {
		n := calls[w.name]
		assert.LessOrEqual(t, n[0]*20, n[2], w.name)
		assert.LessOrEqual(t, n[1]*20, n[2], w.name)
	}
}

// enoughLeases reports whether nfsrdmad can have so many leases: each is a descriptor, and
// half of them may be leases.
func enoughLeases(t *testing.T, files int) bool {
	t.Helper()
	var most unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &most))
	return most.Max/2 >= uint64(files)
}

// letWait makes processes of the host wait for leases for so many seconds, until the
// end of the test.
func letWait(t *testing.T, seconds int) {
	t.Helper()
	const file = "/proc/sys/fs/lease-break-time"
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	if n, err := strconv.Atoi(strings.TrimSpace(string(before))); err != nil || n >= seconds {
		return
	}
	require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(seconds)), 0o644))
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(file, before, 0o644)) })
}

// mostFrequent returns the kinds of calls that were made most often.
func mostFrequent(before, after map[string]int) string {
	var list []string
	for name, n := range after {
		if n -= before[name]; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(list, ", ")
}
