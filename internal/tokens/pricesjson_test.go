package tokens

import (
	"encoding/json"
	"testing"
)

func TestPricesAreJSONAsAConfigurationHasThem(t *testing.T) {
	var p Prices
	p.Set(Input, 2*One+One/2)
	p.Set(Output, 10*One)
	p.SetPiece(WebSearch, One/100)
	p.SetAbove(200_000, Input, 5*One)
	p.Fill()
	got, err := json.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(got, &all); err != nil {
		t.Fatal(err)
	}
	above, _ := all["above"].(map[string]any)["200000"].(map[string]any)
	if all["input"] != 2.5 || all["cached_input"] != 2.5 || all["output"] != 10.0 || above["input"] != 5.0 ||
		all["per_call"].(map[string]any)["web_search"] != 0.01 || all["tiers"] != nil {
		t.Errorf("got %s", got)
	}
}
