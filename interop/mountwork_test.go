//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// TestMountWork checks that everyday programs work on a mount: Debian's git,
// tar, sqlite3, make and gcc.
func TestMountWork(t *testing.T) {
	s := nfsrdmadShop(t)
	m := s.mountFUSE(t)
	for name, work := range map[string]func(t *testing.T, here, mount string){
		"git": gitWork, "tar": tarWork, "sqlite": sqliteWork, "make": makeWork,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(m.point, name)
			require.NoError(t, os.Mkdir(dir, 0o755))
			work(t, t.TempDir(), dir)
			logTime(t, "rm -r", func() { onHost(t, m.point, "rm -r "+name) })
		})
	}
	m.unmountFUSE()
	s.runShell(t, `test -z "$(ls -A)"`)
}

// gitWork clones a repository onto the mount and works in the clone.
func gitWork(t *testing.T, here, mount string) {
	const commits = 300
	require.NoError(t, os.WriteFile(here+"/stream", gitHistory(commits), 0o644))
	onHost(t, here, "git init -q --bare origin.git; git -C origin.git fast-import --quiet <stream")
	git := func(part, script string) (out string) {
		// The user's own settings must have no effect.
		const env = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org " +
			"GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org; "
		logTime(t, "git "+part, func() { out = onHost(t, mount, env+script) })
		return out
	}
	git("clone", "git clone -q file://"+here+"/origin.git -b main clone")
	git("fsck", "git -C clone fsck --strict --no-progress")
	assert.Empty(t, git("status", "git -C clone status --porcelain"))
	for _, n := range []int{1, commits / 2, commits} {
		git("checkout", fmt.Sprintf("git -C clone checkout -q v%d", n))
		assert.Equal(t, onHost(t, here, fmt.Sprintf("git -C origin.git ls-tree -r v%d | wc -l", n)),
			git("ls-files", "git -C clone ls-files | wc -l"))
		assert.Empty(t, git("status", "git -C clone status --porcelain"))
	}
	git("commit", "cd clone; git checkout -q -b mine; echo more >>d1/f1; git commit -q -a -m more; git rebase -q v200; git push -q origin mine")
	git("gc", "git -C clone gc -q; git -C clone fsck --strict --no-progress")
	assert.Empty(t, git("status", "git -C clone status --porcelain"))
}

// gitHistory returns the input of git fast-import: commits, each with a tag, that
// change a few of a few hundred files.
func gitHistory(commits int) []byte {
	var b bytes.Buffer
	for n := 1; n <= commits; n++ {
		message := fmt.Sprintf("commit %d\n", n)
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata %d\n%s",
			n, 1_600_000_000+n, len(message), message)
		for k := range 5 {
			content := strings.Repeat(fmt.Sprintf("line of commit %d, file %d\n", n, k), 1+(n*k)%200)
			fmt.Fprintf(&b, "M 100644 inline d%d/f%d\ndata %d\n%s\n", (n+k)%20, (n*7+k)%30, len(content), content)
		}
		fmt.Fprintf(&b, "\nreset refs/tags/v%d\nfrom :%d\n\n", n, n)
	}
	return b.Bytes()
}

// tarWork unpacks 1,000 files, and with INTEROP_SOAK 5,000.
func tarWork(t *testing.T, here, mount string) {
	require.NoError(t, workload.Run(here, &bytes.Buffer{}, "tree"))
	pruneTree(t, here)
	onHost(t, here, "tar --sort=name -cf tree.tar tree; rm -r tree; tar xf tree.tar")
	logTime(t, "tar x", func() { onHost(t, mount, "tar xf "+here+"/tree.tar") })
	logTime(t, "tar --compare", func() { assert.Empty(t, onHost(t, mount, "tar --compare -f "+here+"/tree.tar")) })
	logTime(t, "tar c", func() { onHost(t, mount, "tar --sort=name -cf - tree | cmp - "+here+"/tree.tar") })
	sameLines(t, hostDir(here).readManifest(t, "tree"), hostDir(mount).readManifest(t, "tree"))
}

// sqliteWork lets two processes write to one database concurrently, in both of
// sqlite3's modes: a rollback journal, and a write-ahead log with an index in
// shared memory.
func sqliteWork(t *testing.T, _, mount string) {
	const rows = 150
	for _, mode := range []string{"delete", "wal"} {
		db := mode + ".db"
		out := onHost(t, mount, fmt.Sprintf("sqlite3 %s 'PRAGMA journal_mode=%s; CREATE TABLE t(who, n, text);'", db, mode))
		require.Equal(t, mode+"\n", out)
		logTime(t, "sqlite3, "+mode, func() {
			ends := make(chan error)
			for who := range 2 {
				var script strings.Builder
				for n := range rows {
					fmt.Fprintf(&script, "INSERT INTO t VALUES(%d,%d,hex(randomblob(%d)));\n", who, n, 10*n)
				}
				name := fmt.Sprintf("%s/%s.%d", t.TempDir(), mode, who)
				require.NoError(t, os.WriteFile(name, []byte(".timeout 60000\n"+script.String()), 0o644))
				go func() {
					out, err := tryOnHost(mount, fmt.Sprintf("sqlite3 -bail %s <%s", db, name))
					if err != nil || out != "" {
						err = fmt.Errorf("sqlite3 says %q: %w", out, err)
					}
					ends <- err
				}()
			}
			for range 2 {
				require.NoError(t, <-ends)
			}
		})
		assert.Equal(t, fmt.Sprintf("ok\n%d|%d\n", 2*rows, rows*(rows-1)),
			onHost(t, mount, fmt.Sprintf("sqlite3 %s 'PRAGMA integrity_check; SELECT count(*), sum(n) FROM t;'", db)))
	}
}

// makeWork compiles a program of 50 files and runs it.
func makeWork(t *testing.T, _, mount string) {
	const files = 50
	var names, calls, declared strings.Builder
	for n := range files {
		fmt.Fprintf(&names, " f%d.o", n)
		fmt.Fprintf(&calls, "\tsum += f%d();\n", n)
		fmt.Fprintf(&declared, "int f%d(void);\n", n)
		text := fmt.Sprintf("#include \"all.h\"\nint f%d(void) { return BASE + %d; }\n", n, n)
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/f%d.c", mount, n), []byte(text), 0o644))
	}
	for name, text := range map[string]string{
		"all.h":    "#define BASE 1\n" + declared.String(),
		"main.c":   "#include <stdio.h>\n#include \"all.h\"\nint main(void)\n{\n\tint sum = 0;\n" + calls.String() + "\tprintf(\"%d\\n\", sum);\n\treturn 0;\n}\n",
		"Makefile": "OBJECTS = main.o" + names.String() + "\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n$(OBJECTS): all.h\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(mount, name), []byte(text), 0o644))
	}
	logTime(t, "make", func() { onHost(t, mount, "make -s -j2") })
	assert.Equal(t, fmt.Sprintln(files+files*(files-1)/2), onHost(t, mount, "./program"))
	assert.Contains(t, onHost(t, mount, "make"), "up to date")
	text := "#include \"all.h\"\nint f7(void) { return BASE + 1000; }\n"
	require.NoError(t, os.WriteFile(mount+"/f7.c", []byte(text), 0o644))
	again := onHost(t, mount, "make --no-print-directory") // or a parent make would have it print directories
	assert.Equal(t, 2, strings.Count(again, "\n"), "one file is compiled, and the program linked, not:\n%s", again)
	assert.Equal(t, fmt.Sprintln(files+files*(files-1)/2+1000-7), onHost(t, mount, "./program"))
}
