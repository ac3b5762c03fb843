package model

// Within plays in a directory of another player's.
func Within(p Player, dir string) Player { return within{p, dir} }

type within struct {
	Player
	dir string
}

func (w within) Do(o Op) (Result, error) {
	o.Path = w.dir + "/" + o.Path
	if o.Kind == Link || o.Kind == Rename {
		o.To = w.dir + "/" + o.To
	}
	return w.Player.Do(o)
}
