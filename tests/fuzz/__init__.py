"""Every public function of theory and diagnose, given what nobody should give it: `make fuzz`."""
