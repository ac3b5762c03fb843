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
	p.file("script", "#!/bin/sh\nexit 7\n")
	p.need(unix.Chmod(p.at("script"), 0o755))
	var status *exec.ExitError
	err := exec.Command(p.at("script")).Run()
	p.say("exit status 7: %v", errors.As(err, &status) && status.ExitCode() == 7)
}

func execNotExecutable(p *probe) {
	p.file("script", "#!/bin/sh\nexit 7\n")
	p.mkdir("dir")
	p.result("file", errors.Unwrap(exec.Command(p.at("script")).Run()))
	p.result("directory", errors.Unwrap(exec.Command(p.at("dir")).Run()))
}

// here runs f with a separate working directory.
func (p *probe) here(name string, f func()) {
	p.also(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		return unix.Chdir(p.at(name))
	}, f)
}

func workingDirectory(p *probe) {
	p.mkdir("d")
	p.file("d/f", "")
	p.here("d", func() {
		p.result("open", unix.Access("f", unix.F_OK))
		p.need(unix.Rename(p.at("d"), p.at("e")))
		p.result("after a rename", unix.Access("f", unix.F_OK))
		p.result("above", unix.Access("../e/f", unix.F_OK))
		b := make([]byte, 4096)
		n, err := unix.Getcwd(b)
		p.need(err)
		p.say("%v", string(b[:n-1]) == p.at("e"))
	})
}

func workingDirectoryGone(p *probe) {
	p.mkdir("d")
	p.here("d", func() {
		p.result("rmdir", unix.Rmdir(p.at("d")))
		_, err := unix.Open("new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		p.result("create", err)
		_, err = unix.Getcwd(make([]byte, 4096))
		p.result("getcwd", err)
		p.result("above", unix.Access("..", unix.F_OK))
	})
}
