package transact

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Schema creates a new database's tables: t has a row for each transaction,
// and total counts them.
const Schema = `PRAGMA journal_mode=delete;
CREATE TABLE t(who, n, PRIMARY KEY(who, n)) WITHOUT ROWID;
CREATE TABLE total(n);
INSERT INTO total VALUES(0);`

// Check describes a database: whether it is intact, and then the counts by each
// table.
const Check = "PRAGMA integrity_check; SELECT count(*) FROM t; SELECT n FROM total; SELECT who, count(*), min(n), max(n) FROM t GROUP BY who;"

// The lines by which a process is made to rest, by Run's input, and says so.
const (
	Rest    = "rest"
	Resting = "resting"
	Go      = "go"
)

// patience is how long sqlite3 waits for a lock, in milliseconds.
const patience = 1200000

// A Job is one process's work.
type Job struct {
	Program []string // sqlite3, with arguments
	DB      string   // file
	Who     string
	Count   int           // transactions
	Pause   time.Duration // after each
}

// Run performs a job. It prints the number of each transaction that is in the
// database, and at the end how many have failed and were in the database, and
// how many were not. When in has the line Rest, Run rests between two
// transactions, until the line Go.
func Run(j Job, in io.Reader, out io.Writer) error {
	words := make(chan string)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case words <- lines.Text():
			case <-done:
				return
			}
		}
	}()
	var kept, not int // failed transactions that are in the database, and that are not
	db, err := startSQLite(&j)
	if err != nil {
		return err
	}
	defer func() { db.kill() }()
	for n := 0; n < j.Count; {
		said, err := db.execSQL(fmt.Sprintf("BEGIN IMMEDIATE;\nINSERT INTO t VALUES('%s', %d);\nUPDATE total SET n = n + 1;\nCOMMIT;", j.Who, n))
		if err != nil {
			return err
		}
		if said != "" {
			fmt.Fprintf(out, "transaction %d: %s\n", n, said)
			db.kill()
			if db, err = startSQLite(&j); err != nil {
				return err
			}
			there, err := db.execSQL(fmt.Sprintf("SELECT count(*) FROM t WHERE who = '%s' AND n = %d;", j.Who, n))
			switch {
			case err != nil:
				return err
			case there == "0\n":
				not++
				continue
			case there != "1\n":
				return fmt.Errorf("transaction %d may be there: %q", n, there)
			}
			kept++
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
		n++
		select {
		case <-time.After(j.Pause):
		case word := <-words:
			if word != Rest {
				return fmt.Errorf("%q in place of %s", word, Rest)
			}
			fmt.Fprintln(out, Resting)
			if word = <-words; word != Go {
				return fmt.Errorf("%q in place of %s", word, Go)
			}
		}
	}
	_, err = fmt.Fprintf(out, "failed %d %d\n", kept, not)
	return err
}

// A process is a running sqlite3.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startSQLite starts sqlite3.
func startSQLite(j *Job) (*process, error) {
	cmd := exec.Command(j.Program[0], append(j.Program[1:len(j.Program):len(j.Program)], "-batch", j.DB)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, in, bufio.NewReader(out)}
	if said, err := p.execSQL(fmt.Sprintf(".timeout %d", patience)); err != nil || said != "" {
		p.kill()
		return nil, fmt.Errorf("sqlite3 says %q: %w", said, err)
	}
	return p, nil
}

// execSQL executes SQL, and returns the output.
func (p *process) execSQL(sql string) (string, error) {
	const end = "@end\n"
	if _, err := fmt.Fprintf(p.in, "%s\n.print %s", sql, end); err != nil {
		return "", err
	}
	var said strings.Builder
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("sqlite3 has ended after %q: %w", said.String()+line, err)
		}
		if line == end {
			return said.String(), nil
		}
		said.WriteString(line)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // the process was killed
}
