"""The graph in which questions travel too: keys are filled when somebody asks."""
