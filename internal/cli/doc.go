// Package cli has the common parts of the commands: running and stopping a program,
// listeners, values of flags, and the version.
//
//	main ─▶ Run ─▶ cobra ─▶ the command ─▶ error ─▶ one line, exit status 1
//	                 └─ not understood ─▶ error ─▶ one line, exit status 2
//
// It must not contain code of a particular command.
package cli
