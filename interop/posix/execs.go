package posix

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

var execCases = []Case{
	{"exec", anyone, execScript},
	{"exec-not-executable", anyone, execNotExecutable},
	{"working-directory", anyone, workingDirectory},
	{"working-directory-gone", anyone, workingDirectoryGone},
}

func execScript(p *probe) {
	p.makeFile("script", "#!/bin/sh\nexit 7\n")
	p.mustSucceed(unix.Chmod(p.pathOf("script"), 0o755))
	var status *exec.ExitError
	err := exec.Command(p.pathOf("script")).Run()
	p.say("exit status 7: %v", errors.As(err, &status) && status.ExitCode() == 7)
}

func execNotExecutable(p *probe) {
	p.makeFile("script", "#!/bin/sh\nexit 7\n")
	p.makeDir("dir")
	p.sayError("file", errors.Unwrap(exec.Command(p.pathOf("script")).Run()))
	p.sayError("directory", errors.Unwrap(exec.Command(p.pathOf("dir")).Run()))
}

// runIn runs f with a separate working directory.
func (p *probe) runIn(name string, f func()) {
	p.continueOnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		return unix.Chdir(p.pathOf(name))
	}, f)
}

func workingDirectory(p *probe) {
	p.makeDir("d")
	p.makeFile("d/f", "")
	p.runIn("d", func() {
		p.sayError("open", unix.Access("f", unix.F_OK))
		p.mustSucceed(unix.Rename(p.pathOf("d"), p.pathOf("e")))
		p.sayError("after a rename", unix.Access("f", unix.F_OK))
		p.sayError("above", unix.Access("../e/f", unix.F_OK))
		b := make([]byte, 4096)
		n, err := unix.Getcwd(b)
		p.mustSucceed(err)
		p.say("%v", string(b[:n-1]) == p.pathOf("e"))
	})
}

func workingDirectoryGone(p *probe) {
	p.makeDir("d")
	p.runIn("d", func() {
		p.sayError("rmdir", unix.Rmdir(p.pathOf("d")))
		_, err := unix.Open("new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		p.sayError("create", err)
		_, err = unix.Getcwd(make([]byte, 4096))
		p.sayError("getcwd", err)
		p.sayError("above", unix.Access("..", unix.F_OK))
	})
}
