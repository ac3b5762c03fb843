package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A job is a typical use of a file tree, repeated.
type job struct {
	name        string
	createFiles func(dir string) error // creates the tree
	setup       string                 // shell scripts that print nothing
	repeat      string
}

var (
	gitStatusJob = &job{"git", createGitTree, "git init -q -b main; git add .; git commit -q -m all", "git status --porcelain"}
	compileJob   = &job{"cc", createCTree, "make -s", "make -s -B"}
)

const (
	gitFiles, gitDirs = 20_000, 200
	cFiles, cHeaders  = 20, 40
	attrCacheTime     = 3 * time.Second // for files, on a mount without delegations
)

// gitEnv overrides the user's own settings.
var gitEnv = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
	"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
}

// runScript runs a shell script in dir.
func (w *testbed) runScript(dir, text string) error {
	cmd := exec.CommandContext(w.ctx, "sh", "-euc", text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), gitEnv...)
	out, err := cmd.CombinedOutput()
	if err == nil && len(out) > 0 {
		err = errors.New("the script printed something")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, out)
	}
	return nil
}

// prepareJob creates a job's files, once, through the local directory. It returns
// their path below the export.
func (w *testbed) prepareJob(j *job) (string, error) {
	dir := w.path(j.name)
	if _, err := os.Stat(dir); err == nil {
		return j.name, nil
	}
	if err := j.createFiles(dir); err != nil {
		return "", err
	}
	return j.name, w.runScript(dir, j.setup)
}

// createGitTree writes files with old dates, because git rereads files that are as
// new as its index.
func createGitTree(dir string) error {
	old := time.Now().Add(-72 * time.Hour)
	for i := range gitFiles {
		sub := filepath.Join(dir, fmt.Sprintf("d%03d", i%gitDirs))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		name := filepath.Join(sub, fileName(i))
		err := errors.Join(os.WriteFile(name, fmt.Appendln(nil, "file", i), 0o644), os.Chtimes(name, old, old))
		if err != nil {
			return err
		}
	}
	return nil
}

// createCTree writes a program whose files include all its headers.
func createCTree(dir string) error {
	var all, objects bytes.Buffer
	files := make(map[string]string)
	for i := range cHeaders {
		fmt.Fprintf(&all, "#include \"h%d.h\"\n", i)
		files[fmt.Sprintf("h%d.h", i)] = fmt.Sprintf("#define H%d %d\nint h%[1]d(int);\n%[3]s", i, i, strings.Repeat("/* what it is for */\n", 50))
	}
	for i := range cFiles {
		fmt.Fprintf(&objects, " f%d.o", i)
		files[fmt.Sprintf("f%d.c", i)] = fmt.Sprintf("%sint f%d(int n) { return n + H%[2]d; }\n", &all, i)
	}
	files["Makefile"] = "all:" + objects.String() + "\n"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
