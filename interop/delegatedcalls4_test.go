//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A delegatedWork is work that opens the same files again and again: a script
// that prepares it, and a script that is measured.
type delegatedWork struct{ name, prepare, again string }

// delegatedWorks need programs of the host: see everyday.
var delegatedWorks = []delegatedWork{
	{
		"open, read and close of 400 files",
		"mkdir files; for d in $(seq 4); do mkdir files/$d; for n in $(seq 100); do echo $n >files/$d/$n; done; done",
		"for d in files/*; do cat $d/* >/dev/null; done",
	},
	{
		"git status and git grep of 400 files",
		"git init -q tree; cd tree; for d in $(seq 4); do mkdir $d; for n in $(seq 100); do echo $d $n >$d/$n; done; done; git add .; git commit -q -m one",
		"cd tree; git status --porcelain; git grep -q nothing || :",
	},
	{
		"compilation of 10 files with 50 headers",
		"mkdir program; cd program; for h in $(seq 50); do echo \"#define H$h $h\" >$h.h; echo \"#include \\\"$h.h\\\"\" >>all.h; done; " +
			"for n in $(seq 10); do printf '#include \"all.h\"\\nint f%d(void) { return H1; }\\n' $n >f$n.c; done; printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n%%.o: %%.c\\n\\tgcc -c -o /tmp/$@ $<\\n' >Makefile",
		"cd program; make -s -j2",
	},
}

// delegatedLimit bounds one work. The guest is slow.
const delegatedLimit = 15 * time.Minute

// author names the author of commits.
const author = "set -e; export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org\n"

// TestDelegatedCalls4 measures how many calls Linux makes by version 4.2 over RDMA
// for work that opens the same files again and again, with delegations and without,
// and on knfsd. Linux returns a delegation that it has not used between two renewals
// of its lease (27 s here), so the files are as few as the slow guest can open in
// that time.
func TestDelegatedCalls4(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	guest(t)
	dir := reachable(t)
	exports := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(exports, []byte("/usr *(ro,insecure,no_root_squash)\n"+dir+" *(rw,insecure,no_root_squash)\n"), 0o644))
	calls := make(map[string][]int)
	for _, how := range []string{"read", "off", "knfsd"} {
		flag := how
		if how == "knfsd" {
			flag = "off"
		}
		d := serveExports(t, dir, exports, "--delegations", flag)
		s := d.site().by("4.2")
		must(t, fmt.Sprintf(everyday, s.host, s.options("rdma")))
		s.export = dir
		s.mount(t, "/everyday/work", s.options("rdma"))
		must(t, "echo 30000 >/sys/module/nfsv4/parameters/delegation_watermark")
		inside := func(script string) {
			out, status := tryFor(t, delegatedLimit, "cat >/everyday/tmp/script <<'END'\n"+author+"cd /work\n"+script+"\nEND\nchroot /everyday /bin/sh /tmp/script")
			require.Zero(t, status, "%s", tail(out))
		}
		prepare := func(script string) { onHost(t, dir, author+script) }
		if how == "knfsd" {
			must(t, "umount /everyday/work; mkdir -p /export/work; mount -o bind /export/work /everyday/work")
			prepare = inside
		}
		for _, w := range delegatedWorks {
			prepare("(" + w.prepare + ")")
		}
		if how == "knfsd" {
			k := knfsd4()
			must(t, fmt.Sprintf("umount /everyday/work; mount.nfs %s:/work /everyday/work -o %s", k.host, k.options("rdma")))
		}
		for _, w := range delegatedWorks {
			inside(w.again)
			inside(w.again)
			must(t, "sleep 5") // attributes of young files are believed for 3 s
			before := callsOf(t, "/everyday/work")
			start := time.Now()
			inside(w.again)
			seconds := time.Since(start).Seconds()
			after := callsOf(t, "/everyday/work")
			n := total(after) - total(before)
			calls[w.name] = append(calls[w.name], n)
			t.Logf("%s, %s: %d calls, %.2f s; %s", w.name, how, n, seconds, most(before, after))
		}
		must(t, "cd /everyday; umount dev proc work usr; rm -rf /export/work")
		onHost(t, dir, "rm -rf files tree program")
		d.stop()
	}
	for name, n := range calls {
		assert.LessOrEqual(t, n[0]*20, n[1], name)
	}
}

// most returns the kinds of calls that were made most often.
func most(before, after map[string]int) string {
	var list []string
	for name, n := range after {
		if n -= before[name]; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(list, ", ")
}
